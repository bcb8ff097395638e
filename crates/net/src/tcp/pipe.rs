//! What bytes go through: a socket, or in tests something that does worse.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// A stream of bytes that never waits.
pub trait Pipe: Send {
    /// Writes what it can of these pieces, in order.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if nothing can be written now; anything else is the end.
    fn write(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize>;

    /// Reads what there is.
    ///
    /// # Errors
    /// As [`Self::write`]. No bytes are the end.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// The socket, for waiting.
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
