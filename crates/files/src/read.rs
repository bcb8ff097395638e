//! Reads inputs: files up to a limit, pipes up to 16 MiB while bytes arrive, no devices.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, major, minor, open, stat};
use rustix::io::Errno;
use rustix::termios::isatty;

use crate::{OPEN_TIME, SILENCE, kind};

/// Limit on the bytes of a pipe, a FIFO, a socket or a terminal.
pub const MOST_PIPED: u64 = 16 << 20;

/// Bytes per call of `read`.
const PIECE: usize = 64 << 10;

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

impl From<Errno> for ReadError {
    fn from(error: Errno) -> Self {
        Self::System(error.into())
    }
}

/// The type of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A file, maybe of the kernel with an unknown size.
    File,
    /// A FIFO opened by this process without waiting for its other end.
    Fifo,
    /// A pipe or socket that this process was given.
    Pipe,
    /// A terminal, without time limits.
    Terminal,
}

impl Source {
    const fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Fifo | Self::Pipe => "pipe",
            Self::Terminal => "terminal",
        }
    }
}

/// Time limits.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// Until a process opens the FIFO.
    writer: Duration,
    /// Until the next byte.
    byte: Duration,
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
    read_within(path, most, PATIENCE)
}

/// Like [`read()`], for text.
///
/// # Errors
/// As for [`read()`], or it is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> Result<String, ReadError> {
    let bytes = read(path, most)?;
    String::from_utf8(bytes).map_err(|error| ReadError::NoText(error.utf8_error().valid_up_to()))
}

/// Reads standard input like [`read()`]. `/dev/null` is empty.
///
/// # Errors
/// As for [`read()`].
pub fn standard_input(most: u64) -> Result<Vec<u8>, ReadError> {
    let input = io::stdin();
    let found = fstat(&input)?;
    let source = match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Source::File,
        FileType::Fifo | FileType::Socket => Source::Pipe,
        FileType::CharacterDevice if isatty(&input) => Source::Terminal,
        FileType::CharacterDevice if is_null(&found) => return Ok(Vec::new()),
        other => return Err(ReadError::Kind(kind(other))),
    };
    take(input.as_fd(), source, size(&found), most, PATIENCE)
}

/// Whether it is `/dev/null`, the input of programs without one.
fn is_null(found: &Stat) -> bool {
    (major(found.st_rdev), minor(found.st_rdev)) == (1, 3)
}

/// Whether a device number is of a console, the controlling terminal or a pseudoterminal.
fn may_be_terminal(found: &Stat) -> bool {
    matches!(major(found.st_rdev), 4 | 5 | 136..=143)
}

fn size(found: &Stat) -> u64 {
    u64::try_from(found.st_size).unwrap_or(0)
}

fn read_within(path: &Path, most: u64, patience: Patience) -> Result<Vec<u8>, ReadError> {
    // Opening a device can have effects, so check the type before and after.
    source(&stat(path)?)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = open(path, flags, Mode::empty())?;
    let found = fstat(&file)?;
    let source = source(&found)?;
    if source == Source::Terminal && !isatty(&file) {
        return Err(ReadError::Kind(kind(FileType::CharacterDevice)));
    }
    take(file.as_fd(), source, size(&found), most, patience)
}

fn source(found: &Stat) -> Result<Source, ReadError> {
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Ok(Source::File),
        FileType::Fifo => Ok(Source::Fifo),
        FileType::CharacterDevice if may_be_terminal(found) => Ok(Source::Terminal),
        other => Err(ReadError::Kind(kind(other))),
    }
}

/// Reads to the end.
fn take(
    from: BorrowedFd<'_>,
    source: Source,
    size: u64,
    most: u64,
    patience: Patience,
) -> Result<Vec<u8>, ReadError> {
    if source == Source::File && size > most {
        return Err(ReadError::Long { bytes: size, most });
    }
    let most = match source {
        Source::File => most,
        _ => most.min(MOST_PIPED),
    };
    let mut bytes = Vec::new();
    let mut piece = vec![0; PIECE];
    // Files are ready, except some of the kernel's, whose `read` returns EAGAIN.
    let mut waits = source != Source::File;
    let mut writer_came = source != Source::Fifo;
    let mut since = Instant::now();
    loop {
        let longest = match source {
            Source::Terminal => None,
            _ if writer_came => Some(patience.byte),
            _ => Some(patience.writer),
        };
        let ready = !waits || wait(from, PollFlags::IN, since, longest)?;
        if !ready && source != Source::Fifo {
            return Err(ReadError::Silent(patience.byte));
        }
        match rustix::io::read(from, &mut piece) {
            // A FIFO that no process has opened for writing also reports the end.
            Ok(0) if !ready => return Err(ReadError::NoWriter(patience.writer)),
            Ok(0) => return Ok(bytes),
            Ok(more) => {
                if (bytes.len() + more) as u64 > most {
                    let from = source.name();
                    return Err(ReadError::Endless { most, from });
                }
                bytes.extend_from_slice(&piece[..more]);
                since = Instant::now();
                writer_came = true;
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if !ready && writer_came => {
                return Err(ReadError::Silent(patience.byte));
            }
            Err(Errno::AGAIN) => {
                waits = true;
                writer_came |= !ready;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits until the descriptor is ready. Returns `false` once `longest` has passed since `since`.
pub(crate) fn wait(
    on: BorrowedFd<'_>,
    flags: PollFlags,
    since: Instant,
    longest: Option<Duration>,
) -> io::Result<bool> {
    loop {
        let left = longest.map(|longest| longest.saturating_sub(since.elapsed()));
        let timeout = left.map(|left| Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        match poll(&mut [PollFd::from_borrowed_fd(on, flags)], timeout.as_ref()) {
            Ok(0) if left.is_some_and(|left| left.is_zero()) => return Ok(false),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::thread;

    use super::*;

    const SHORT: Patience = Patience {
        writer: Duration::from_millis(300),
        byte: Duration::from_millis(900),
    };

    fn fifo() -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
        (folder, path)
    }

    #[test]
    fn a_fifo_has_no_end_before_somebody_wrote() {
        let (_folder, path) = fifo();
        let error = read_within(&path, 100, SHORT).unwrap_err();
        assert!(matches!(error, ReadError::NoWriter(_)), "{error}");
        // A writer that is there but writes nothing has more time.
        let opened = path.clone();
        let writer = thread::spawn(move || {
            let file = std::fs::OpenOptions::new().write(true).open(opened);
            thread::sleep(Duration::from_millis(1500));
            drop(file);
        });
        let before = Instant::now();
        let error = read_within(&path, 100, SHORT).unwrap_err();
        assert!(matches!(error, ReadError::Silent(_)), "{error}");
        assert!(before.elapsed() >= SHORT.byte);
        writer.join().unwrap();
    }

    #[test]
    fn a_slow_writer_is_waited_for() {
        let (_folder, path) = fifo();
        let opened = path.clone();
        let writer = thread::spawn(move || {
            let mut file = std::fs::OpenOptions::new()
                .write(true)
                .open(opened)
                .unwrap();
            for byte in b"slow" {
                thread::sleep(Duration::from_millis(400));
                file.write_all(&[*byte]).unwrap();
            }
        });
        assert_eq!(read_within(&path, 4, SHORT).unwrap(), b"slow");
        writer.join().unwrap();
    }

    #[test]
    fn limits_are_those_of_the_bytes() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"12345").unwrap();
        assert_eq!(read(file.path(), 5).unwrap(), b"12345");
        let error = read(file.path(), 4).unwrap_err();
        assert!(matches!(error, ReadError::Long { bytes: 5, most: 4 }));
        // A file of the kernel says that it is empty.
        let error = read(Path::new("/proc/self/status"), 4).unwrap_err();
        assert!(matches!(error, ReadError::Endless { most: 4, .. }));
        assert!(
            !read(Path::new("/proc/self/status"), 1 << 20)
                .unwrap()
                .is_empty()
        );
    }
}
