//! Single authenticated connections, for callers that then use the socket themselves.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::id::{Key, nonce};
use crate::link::{Kind, Link};
use crate::machine::Ending;
use crate::socket::accept::Arrived;

/// An authenticated connection. [`Self::into_stream`] returns its socket, from which nothing was
/// read ahead.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    link: Link,
}

/// Pause before connecting again to a listener that closed the connection before both sides had
/// proved.
const AGAIN: Duration = Duration::from_millis(100);

impl Connection {
    /// Connects. A listener crowded by strangers may close the connection, so this tries again
    /// until the time is over.
    ///
    /// # Errors
    /// Nothing listens there, the other side has another key, or it is too slow.
    pub fn open(to: SocketAddr, key: &Key, kind: Kind, longest: Duration) -> Result<Self, Ending> {
        let until = Instant::now() + longest;
        loop {
            match Self::try_open(to, key, kind, until) {
                Err(Ending::Ended | Ending::Broken(_)) if Instant::now() + AGAIN < until => {
                    std::thread::sleep(AGAIN);
                }
                other => return other,
            }
        }
    }

    fn try_open(to: SocketAddr, key: &Key, kind: Kind, until: Instant) -> Result<Self, Ending> {
        let refused = |error: std::io::Error| Ending::Refused(error.to_string());
        let left = until.saturating_duration_since(Instant::now());
        let left = left.max(Duration::from_millis(1));
        let stream = TcpStream::connect_timeout(&to, left).map_err(refused)?;
        let link = Link::connect(key, kind, nonce().map_err(refused)?);
        let mut connection = Self::new(stream, link, left)?;
        connection.flush()?;
        while connection.link.is_open().is_none() {
            connection.more(until)?;
            connection.flush()?;
        }
        Ok(connection)
    }

    fn new(stream: TcpStream, link: Link, longest_write: Duration) -> Result<Self, Ending> {
        let broken = |error: std::io::Error| Ending::Broken(error.to_string());
        stream.set_nonblocking(false).map_err(broken)?;
        stream.set_nodelay(true).map_err(broken)?;
        let timeout = Some(longest_write);
        stream.set_write_timeout(timeout).map_err(broken)?;
        Ok(Self { stream, link })
    }

    /// The connection that an acceptor let in. A write that takes longer than `longest_write`
    /// fails.
    ///
    /// # Errors
    /// The connection ended.
    pub fn of(arrived: Arrived, longest_write: Duration) -> Result<Self, Ending> {
        Self::new(arrived.stream, arrived.link, longest_write)
    }

    fn flush(&mut self) -> Result<(), Ending> {
        let bytes = self.link.outgoing().to_vec();
        self.link.sent(bytes.len());
        self.stream
            .write_all(&bytes)
            .map_err(|error| Ending::Broken(error.to_string()))
    }

    /// Reads no more bytes than are needed.
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
    /// The connection ended, or no frame arrived in time.
    pub fn receive(&mut self, longest: Duration) -> Result<Vec<u8>, Ending> {
        let until = Instant::now() + longest;
        loop {
            if let Some(frame) = self.link.next_frame().map_err(Ending::Distrusted)? {
                return Ok(frame);
            }
            self.more(until)?;
        }
    }

    /// The socket, for everything behind the last frame.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }

    /// The socket.
    pub const fn stream(&self) -> &TcpStream {
        &self.stream
    }
}
