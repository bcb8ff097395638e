//! Reads inputs: files up to a limit, pipes up to 16 MiB while bytes arrive, no devices.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::{OPEN_TIME, SILENCE, system};

/// Limit on the bytes of a pipe, a FIFO, a socket or a terminal.
pub const MOST_PIPED: u64 = 16 << 20;

/// Bytes per call of `read`.
pub(crate) const PIECE: usize = 64 << 10;

/// Why an input cannot be read. The message does not name the input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// A system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
    /// It is neither a file nor a pipe.
    #[error("it is a {0}; expected a file or a pipe")]
    Kind(&'static str),
    /// The file is longer than the limit.
    #[error("it has {bytes} bytes; at most {most} are read")]
    Long {
        /// Its size.
        bytes: u64,
        /// The limit.
        most: u64,
    },
    /// More bytes than the limit arrived.
    #[error("more than {most} bytes came, the most that are read of a {from}")]
    Endless {
        /// The limit.
        most: u64,
        /// The type of the input.
        from: &'static str,
    },
    /// No process opened the other end of the FIFO.
    #[error("nobody writes to it: no process opened the FIFO within {} s", .0.as_secs())]
    NoWriter(Duration),
    /// No byte arrived although the other end is open.
    #[error("nothing came for {} s", .0.as_secs())]
    Silent(Duration),
    /// It is not UTF-8.
    #[error("it is no text: byte {0} is not UTF-8")]
    NoText(usize),
}

/// Time limits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// Until a process opens the FIFO. Windows has none.
    #[cfg_attr(windows, expect(dead_code, reason = "a FIFO is a file of Unix"))]
    pub writer: Duration,
    /// Until the next byte.
    pub byte: Duration,
}

const PATIENCE: Patience = Patience {
    writer: OPEN_TIME,
    byte: SILENCE,
};

/// Reads an input of at most `most` bytes, or at most [`MOST_PIPED`] of a pipe or a FIFO.
///
/// A process must open a FIFO within 10 s, and every byte of a pipe must arrive within 60 s.
/// Terminals have no time limit.
///
/// # Errors
/// It does not exist, is no file or pipe, is too long, or exceeds a time limit.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, ReadError> {
    system::read(path, most, PATIENCE)
}

/// Like [`read()`], for text.
///
/// # Errors
/// As for [`read()`], or it is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> Result<String, ReadError> {
    let bytes = read(path, most)?;
    String::from_utf8(bytes).map_err(|error| ReadError::NoText(error.utf8_error().valid_up_to()))
}

/// Reads standard input like [`read()`]. Without one, as with `/dev/null`, it is empty.
///
/// # Errors
/// As for [`read()`].
pub fn standard_input(most: u64) -> Result<Vec<u8>, ReadError> {
    system::standard_input(most, PATIENCE)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn limits_are_those_of_the_bytes() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"12345").unwrap();
        assert_eq!(read(file.path(), 5).unwrap(), b"12345");
        let error = read(file.path(), 4).unwrap_err();
        assert!(matches!(error, ReadError::Long { bytes: 5, most: 4 }));
    }

    #[test]
    fn a_folder_and_a_device_are_no_inputs() {
        let folder = tempfile::tempdir().unwrap();
        let device = Path::new(if cfg!(windows) { "NUL" } else { "/dev/zero" });
        for (path, kind) in [(folder.path(), "folder"), (device, "device")] {
            let error = read(path, 5).unwrap_err();
            assert!(
                matches!(error, ReadError::Kind(it) if it == kind),
                "{error}"
            );
        }
    }
}
