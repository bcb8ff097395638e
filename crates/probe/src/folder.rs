//! A folder below which everything is opened.

use std::io;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::OpenOptions;
pub(crate) use cap_std::fs::{Dir, File, Metadata};

/// Opens the folder.
pub(crate) fn open_root(path: &Path) -> io::Result<Dir> {
    Dir::open_ambient_dir(path, ambient_authority())
}

/// Opens a file of the folder without waiting for the other end of a FIFO.
pub(crate) fn open_file(folder: &Dir, path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    no_wait(&mut options);
    folder.open_with(path, &options)
}

#[cfg(unix)]
fn no_wait(options: &mut OpenOptions) {
    use cap_std::fs::OpenOptionsExt;
    options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
}

/// Folders of Windows have no FIFOs.
#[cfg(not(unix))]
fn no_wait(_: &mut OpenOptions) {}
