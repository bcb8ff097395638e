//! Single connections whose both sides have proved that they know the key, for whoever then uses the socket itself.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::id::{Key, nonce};
use crate::link::{Kind, Link};
use crate::machine::Ending;

/// An authenticated connection. Frames can be sent and received; [`Self::into_stream`] gives the socket, of which nothing
/// was read that was not asked for.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    link: Link,
}

impl Connection {
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens there, or the other side knows another key or is too slow.
    pub fn open(to: SocketAddr, key: &Key, kind: Kind, longest: Duration) -> Result<Self, Ending> {
        let until = Instant::now() + longest;
        let stream = TcpStream::connect_timeout(&to, longest.max(Duration::from_millis(1)))
            .map_err(|error| Ending::Refused(error.to_string()))?;
        let nonce = nonce().map_err(|error| Ending::Broken(error.to_string()))?;
        Self::prove(stream, Link::connect(key, kind, nonce), until)
    }

    /// Takes a connection that came.
    ///
    /// # Errors
    /// The other side knows another key, or does not prove in time that it knows this one.
    pub fn accept(stream: TcpStream, key: &Key, longest: Duration) -> Result<Self, Ending> {
        let nonce = nonce().map_err(|error| Ending::Broken(error.to_string()))?;
        let link = Link::accept(key, nonce);
        Self::prove(stream, link, Instant::now() + longest)
    }

    fn prove(stream: TcpStream, link: Link, until: Instant) -> Result<Self, Ending> {
        let broken = |error: std::io::Error| Ending::Broken(error.to_string());
        stream.set_nonblocking(false).map_err(broken)?;
        stream.set_nodelay(true).map_err(broken)?;
        let mut connection = Self { stream, link };
        connection.flush()?;
        while connection.link.is_open().is_none() {
            let came = connection.more(until);
            // One that is turned away may be told why.
            connection.flush().and(came)?;
        }
        Ok(connection)
    }

    /// What it is for.
    pub fn kind(&self) -> Kind {
        self.link.is_open().unwrap_or(Kind::Net)
    }

    fn flush(&mut self) -> Result<(), Ending> {
        let bytes = self.link.outgoing().to_vec();
        self.link.sent(bytes.len());
        self.stream
            .write_all(&bytes)
            .map_err(|error| Ending::Broken(error.to_string()))
    }

    /// Reads as many bytes as are wanted and no more.
    fn more(&mut self, until: Instant) -> Result<(), Ending> {
        let broken = |error: std::io::Error| Ending::Broken(error.to_string());
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Ending::Broken("nothing came in time".to_owned()));
        }
        self.stream.set_read_timeout(Some(left)).map_err(broken)?;
        let mut bytes = vec![0; self.link.wanted().clamp(1, 64 << 10)];
        match self.stream.read(&mut bytes) {
            Ok(0) => Err(Ending::Ended),
            Ok(read) => self.link.push(&bytes[..read]).map_err(Ending::Distrusted),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Err(Ending::Broken("nothing came in time".to_owned()))
            }
            Err(error) => Err(broken(error)),
        }
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// The connection ended.
    pub fn send(&mut self, payload: &[u8]) -> Result<(), Ending> {
        self.link.send(payload).map_err(Ending::Distrusted)?;
        self.flush()
    }

    /// Receives a frame.
    ///
    /// # Errors
    /// The connection ended, or nothing came in time.
    pub fn receive(&mut self, longest: Duration) -> Result<Vec<u8>, Ending> {
        let until = Instant::now() + longest;
        loop {
            if let Some(frame) = self.link.next_frame().map_err(Ending::Distrusted)? {
                return Ok(frame);
            }
            self.more(until)?;
        }
    }

    /// The socket, for everything that follows the last frame.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// The socket.
    pub const fn stream(&self) -> &TcpStream {
        &self.stream
    }
}
