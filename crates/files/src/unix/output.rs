//! Outputs: what a path is, and pipes and devices.

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::fs::{FileType, Mode, OFlags, stat};
use rustix::io::Errno;

use super::input::wait;
use super::kind;
use crate::write::{Place, WriteError};
use crate::{OPEN_TIME, SILENCE};

/// Interval between two attempts to open a FIFO.
const LOOK: Duration = Duration::from_millis(10);

impl From<Errno> for WriteError {
    fn from(error: Errno) -> Self {
        Self::System(error.into())
    }
}

/// The kind of a path as an output.
pub(crate) fn place(path: &Path) -> Place {
    match stat(path).map(|found| FileType::from_raw_mode(found.st_mode)) {
        Ok(found @ (FileType::Directory | FileType::Socket)) => Place::No(kind(found)),
        // A new file would replace the link.
        Err(Errno::NOENT) if path.is_symlink() => Place::No("link to a file that does not exist"),
        Ok(FileType::RegularFile) | Err(_) => Place::File,
        Ok(_) => Place::Direct,
    }
}

/// A builder of files with the permissions of any new file.
pub(crate) fn builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.permissions(Permissions::from_mode(0o666));
    builder
}

/// Refuses a file that is longer than this process may write. Writing it would end the process by
/// a signal, which leaves the temporary file.
pub(crate) fn within_limit(bytes: &[u8]) -> io::Result<()> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    match limit.is_some_and(|limit| bytes.len() as u64 > limit) {
        true => Err(Errno::FBIG.into()),
        false => Ok(()),
    }
}

/// Writes to a pipe or a device while it is being read.
pub(crate) fn write_to(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let mut since = Instant::now();
    let file = loop {
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(file) => break file,
            Err(Errno::NXIO) if since.elapsed() < OPEN_TIME => std::thread::sleep(LOOK),
            Err(Errno::NXIO) => return Err(WriteError::NoReader),
            Err(error) => return Err(error.into()),
        }
    };
    let mut file = File::from(file);
    let mut left = bytes;
    since = Instant::now();
    while !left.is_empty() {
        match file.write(left) {
            Ok(0) => return Err(io::Error::from(io::ErrorKind::WriteZero).into()),
            Ok(written) => {
                left = &left[written..];
                since = Instant::now();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if !wait(file.as_fd(), PollFlags::OUT, since, Some(SILENCE))? {
                    return Err(WriteError::Stuck);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
