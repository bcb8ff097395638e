//! Inputs that are read in pieces and never held, such as logs: files and standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, fstat, open};

use crate::kind;
use crate::read::ReadError;

/// An input without a limit on its bytes. Its reader must not hold them.
#[derive(Debug)]
pub struct Stream {
    file: File,
    size: Option<u64>,
}

impl Stream {
    /// Opens a file.
    ///
    /// # Errors
    /// It does not exist, cannot be read, or is no file.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        // Opening a device can have effects, and a FIFO would wait.
        let found = std::fs::metadata(path)?;
        if !found.is_file() {
            let found = rustix::fs::stat(path)?;
            return Err(ReadError::Kind(kind(FileType::from_raw_mode(
                found.st_mode,
            ))));
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file = open(path, flags, Mode::empty())?;
        Self::of(File::from(file))
    }

    /// Takes standard input: a file, a pipe or a terminal.
    ///
    /// # Errors
    /// It is a folder or another device, or it is closed.
    pub fn standard_input() -> Result<Self, ReadError> {
        let input = rustix::io::dup(io::stdin())?;
        Self::of(File::from(input))
    }

    fn of(file: File) -> Result<Self, ReadError> {
        let found = fstat(&file)?;
        let size = match FileType::from_raw_mode(found.st_mode) {
            FileType::RegularFile => u64::try_from(found.st_size).ok().filter(|it| *it > 0),
            FileType::Fifo | FileType::Socket | FileType::CharacterDevice => None,
            other => return Err(ReadError::Kind(kind(other))),
        };
        Ok(Self { file, size })
    }

    /// Its bytes, if it is a file.
    pub const fn size(&self) -> Option<u64> {
        self.size
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }
}
