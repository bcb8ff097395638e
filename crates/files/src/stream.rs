//! Inputs that are read in pieces and never held, such as logs: files and standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::read::ReadError;
use crate::system;

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
        Self::of(system::open_file(path)?)
    }

    /// Takes standard input: a file, a pipe or a terminal.
    ///
    /// # Errors
    /// It is a folder or another device, or it is closed.
    pub fn standard_input() -> Result<Self, ReadError> {
        Self::of(system::open_standard_input()?)
    }

    fn of(file: File) -> Result<Self, ReadError> {
        let size = system::bytes_of(&file)?;
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
