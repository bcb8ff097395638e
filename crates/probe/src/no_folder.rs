//! No folder: a page in a browser has no files.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read};
use std::iter::Empty;
use std::path::{Path, PathBuf};

/// A folder, of which there is none.
#[derive(Debug)]
pub(crate) struct Dir(Infallible);

/// A file, of which there is none.
#[derive(Debug)]
pub(crate) struct File(Infallible);

/// What a file is.
#[derive(Debug)]
pub(crate) struct Metadata(Infallible);

/// An entry of a folder.
#[derive(Debug)]
pub(crate) struct Entry(Infallible);

/// Opens nothing.
pub(crate) fn open_root(_: &Path) -> io::Result<Dir> {
    Err(ErrorKind::Unsupported.into())
}

/// Opens nothing.
pub(crate) fn open_file(folder: &Dir, _: &Path) -> io::Result<File> {
    match folder.0 {}
}

impl Dir {
    pub(crate) fn metadata(&self, _: impl AsRef<Path>) -> io::Result<Metadata> {
        match self.0 {}
    }

    pub(crate) fn read_dir(&self, _: impl AsRef<Path>) -> io::Result<Empty<io::Result<Entry>>> {
        match self.0 {}
    }

    pub(crate) fn read_link_contents(&self, _: impl AsRef<Path>) -> io::Result<PathBuf> {
        match self.0 {}
    }
}

impl Entry {
    pub(crate) fn file_name(&self) -> OsString {
        match self.0 {}
    }
}

impl File {
    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        match self.0 {}
    }
}

impl Metadata {
    pub(crate) fn is_file(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn is_dir(&self) -> bool {
        match self.0 {}
    }
}

impl Read for File {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match self.0 {}
    }
}
