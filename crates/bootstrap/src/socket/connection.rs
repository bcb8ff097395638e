//! A non-blocking socket with its [`Link`].

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::id::{Key, nonce};
use crate::link::{Kind, Link};
use crate::machine::Ending;
use crate::socket::accept::{Arrived, PROOF_TIME};

/// Bytes of one read.
pub(super) const READ_BYTES: usize = 64 << 10;

/// Most reads before the received frames are handled.
const MOST_READS: usize = 16;

/// A connection that is open or being made.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    pub link: Link,
    /// The kernel still connects.
    connecting: bool,
    /// Deadline of the proof.
    pub proof_until: Instant,
    /// Whether it is closed once everything is sent.
    pub closing: bool,
    /// Whether the socket can be read or written, or received bytes wait to be handled.
    pub ready: bool,
    /// How it ended, if it did so during a send. The kernel reports only once why a connection was
    /// refused.
    over: Option<Ending>,
}

impl Connection {
    /// Begins to connect.
    ///
    /// # Errors
    /// The kernel refuses at once.
    pub(super) fn connect(to: SocketAddr, key: &Key, kind: Kind) -> io::Result<Self> {
        let family = if to.is_ipv4() {
            AddressFamily::INET
        } else {
            AddressFamily::INET6
        };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        let connecting = match rustix::net::connect(&socket, &to) {
            Ok(()) => false,
            Err(rustix::io::Errno::INPROGRESS) => true,
            Err(error) => return Err(error.into()),
        };
        let stream = TcpStream::from(socket);
        // Others wait for small messages.
        let _ = stream.set_nodelay(true);
        Ok(Self {
            stream,
            link: Link::connect(key, kind, nonce()?),
            connecting,
            proof_until: Instant::now() + PROOF_TIME,
            closing: false,
            ready: false,
            over: None,
        })
    }

    /// The socket.
    pub(super) const fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether to poll for writability.
    pub(super) fn wants_to_write(&self) -> bool {
        self.connecting || !self.link.outgoing().is_empty()
    }

    /// Whether it ended; [`Self::write`] then returns how.
    pub(super) const fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Adds a frame to the bytes to send.
    pub(super) fn send(&mut self, payload: &[u8]) {
        if let Err(error) = self.link.send(payload) {
            self.over.get_or_insert(Ending::Distrusted(error));
        }
    }

    /// Sends as many bytes as the socket accepts.
    ///
    /// # Errors
    /// The connection ended.
    pub(super) fn write(&mut self) -> Result<(), Ending> {
        if self.over.is_none() {
            self.over = self.try_write().err();
        }
        self.over.clone().map_or(Ok(()), Err)
    }

    fn try_write(&mut self) -> Result<(), Ending> {
        if self.connecting {
            match sockopt::socket_error(&self.stream) {
                Ok(Ok(())) => {}
                Ok(Err(error)) | Err(error) => {
                    return Err(Ending::Refused(io::Error::from(error).to_string()));
                }
            }
            // No error and no peer: the kernel still connects.
            if self.stream.peer_addr().is_err() {
                return Ok(());
            }
            self.connecting = false;
        }
        while !self.link.outgoing().is_empty() {
            match self.stream.write(self.link.outgoing()) {
                Ok(sent) => self.link.sent(sent),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(Ending::Broken(error.to_string())),
            }
        }
        Ok(())
    }

    /// Reads what has arrived, by way of `bytes`.
    ///
    /// # Errors
    /// The connection ended, or the other side is not trusted.
    pub(super) fn read(&mut self, bytes: &mut [u8]) -> Result<(), Ending> {
        if self.connecting {
            return Ok(());
        }
        for _ in 0..MOST_READS {
            match self.stream.read(bytes) {
                Ok(0) => return Err(Ending::Ended),
                Ok(read) => {
                    self.link.push(&bytes[..read]).map_err(Ending::Distrusted)?;
                    if read < bytes.len() {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(Ending::Broken(error.to_string())),
            }
        }
        Ok(())
    }

    /// Discards received bytes. Returns `true` if more may arrive.
    pub(super) fn skip(&mut self) -> bool {
        let mut bytes = [0; 4096];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => {
                    return matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted);
                }
            }
        }
    }
}

impl From<Arrived> for Connection {
    fn from(arrived: Arrived) -> Self {
        Self {
            stream: arrived.stream,
            link: arrived.link,
            connecting: false,
            proof_until: Instant::now(),
            closing: false,
            ready: true,
            over: None,
        }
    }
}
