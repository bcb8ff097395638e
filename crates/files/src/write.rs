//! Writes outputs: files whole or not at all; pipes and devices directly.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::event::PollFlags;
use rustix::fs::{FileType, Mode, OFlags, stat};
use rustix::io::Errno;

use crate::read::wait;
use crate::{OPEN_TIME, SILENCE, kind};

/// Interval between two attempts to open a FIFO.
const LOOK: std::time::Duration = std::time::Duration::from_millis(10);

/// Why a file cannot be written. The message does not name the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// A system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The path is not a file.
    #[error("it is a {0}; expected a file's name")]
    Kind(&'static str),
    /// The folder does not exist.
    #[error("there is no folder {}", .0.display())]
    NoFolder(PathBuf),
    /// No process opened the other end of the FIFO.
    #[error("nobody reads from it: no process opened the FIFO within {} s", OPEN_TIME.as_secs())]
    NoReader,
    /// No byte was read although the other end is open.
    #[error("nothing was read from it for {} s", SILENCE.as_secs())]
    Stuck,
}

impl From<Errno> for WriteError {
    fn from(error: Errno) -> Self {
        Self::System(error.into())
    }
}

/// Writes a file whole or not at all; an existing file stays until it is replaced. Pipes and
/// devices are written directly. The target of a link is replaced, not the link.
///
/// # Errors
/// It cannot be written. A partial file is removed.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    if path == Path::new("/dev/stdout") {
        // It may be a file that others write, too.
        let mut output = io::stdout().lock();
        output.write_all(bytes)?;
        return Ok(output.flush()?);
    }
    let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    match stat(path).map(|found| FileType::from_raw_mode(found.st_mode)) {
        Ok(found @ (FileType::Directory | FileType::Socket)) => {
            return Err(WriteError::Kind(kind(found)));
        }
        Ok(FileType::RegularFile) | Err(_) => {}
        Ok(_) => return write_to(path, bytes),
    }
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(WriteError::NoFolder(folder.to_owned()));
    }
    let mut builder = tempfile::Builder::new();
    // The permissions of any new file.
    let rights = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    let mut file = builder.permissions(rights).tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path).map_err(|failed| failed.error)?;
    Ok(())
}

/// Writes to a pipe or a device while it is being read.
fn write_to(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
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
