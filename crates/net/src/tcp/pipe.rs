//! Byte streams: sockets, or in tests streams with faults.

use std::io::{self, IoSlice, Read};
use std::net::TcpStream;
use std::sync::Arc;

use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

/// A stream of bytes that does not block.
pub trait Pipe: Send {
    /// Writes as much as it can of these pieces, in order. Returns how many bytes.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if nothing can be written now; after other errors the stream
    /// is over.
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Reads as much as there is. Returns how many bytes; none at the end of the stream.
    ///
    /// # Errors
    /// As [`Self::write`].
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// The socket to wait for.
    fn socket(&self) -> Option<Arc<TcpStream>>;
}

impl Pipe for Arc<TcpStream> {
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        // Not `write_vectored`: in a program that does not ignore the signal, it would end the
        // program when the other side is gone.
        let mut nothing = SendAncillaryBuffer::default();
        Ok(sendmsg(&**self, pieces, &mut nothing, SendFlags::NOSIGNAL)?)
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&**self).read(into)
    }

    fn socket(&self) -> Option<Arc<TcpStream>> {
        Some(Self::clone(self))
    }
}
