//! Byte streams: sockets, or in tests streams with faults.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

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
        (&**self).write_vectored(pieces)
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        (&**self).read(into)
    }

    fn socket(&self) -> Option<Arc<TcpStream>> {
        Some(Self::clone(self))
    }
}
