//! Reading inputs: files up to a limit, pipes up to 16 MiB and while bytes come, no devices.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, major, minor, open, stat};
use rustix::io::Errno;
use rustix::termios::isatty;

use crate::{OPEN_TIME, SILENCE, kind};

/// Most bytes that are read from a pipe, a FIFO, a socket or a terminal.
pub const MOST_PIPED: u64 = 16 << 20;

/// Bytes that are read at once.
const PIECE: usize = 64 << 10;

/// Why an input cannot be read. The message does not name the input.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The system refuses.
    #[error(transparent)]
    System(#[from] io::Error),
    /// It is no file.
    #[error("it is a {0}; expected a file or a pipe")]
    Kind(&'static str),
    /// It is a long file.
    #[error("it has {bytes} bytes; at most {most} are read")]
    Long {
        /// Its size.
        bytes: u64,
        /// The limit.
        most: u64,
    },
    /// It goes on after the limit.
    #[error("more than {most} bytes came, the most that are read of a {from}")]
    Endless {
        /// The limit.
        most: u64,
        /// What they came from.
        from: &'static str,
    },
    /// A FIFO's other end stays closed.
    #[error("nobody writes to it: no process opened the FIFO within {} s", .0.as_secs())]
    NoWriter(Duration),
    /// Nothing comes, although the other end is open.
    #[error("nothing came for {} s", .0.as_secs())]
    Silent(Duration),
    /// It is no text.
    #[error("it is no text: byte {0} is not UTF-8")]
    NoText(usize),
}

impl ReadError {
    /// Whether there is no such file.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::System(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl From<Errno> for ReadError {
    fn from(error: Errno) -> Self {
        Self::System(error.into())
    }
}

/// What bytes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A file; also one of the kernel, whose size says nothing.
    File,
    /// A FIFO that was opened here, without waiting for its other end.
    Fifo,
    /// A pipe or a socket that was given to this process.
    Pipe,
    /// A person.
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

/// How long is waited.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// For a process that opens a FIFO.
    writer: Duration,
    /// For the next byte.
    byte: Duration,
}

const PATIENCE: Patience = Patience {
    writer: OPEN_TIME,
    byte: SILENCE,
};

/// Reads an input of at most `most` bytes; of a pipe or a FIFO at most [`MOST_PIPED`].
///
/// A FIFO is given up when no process opens it within 10 s, a pipe when nothing comes for 60 s. A terminal has the time
/// that it needs.
///
/// # Errors
/// It is not there, is no file, or is too long; or nothing comes.
pub fn read(path: &Path, most: u64) -> Result<Vec<u8>, ReadError> {
    read_within(path, most, PATIENCE)
}

/// As [`read()`], of text.
///
/// # Errors
/// As of [`read()`], or it is not UTF-8.
pub fn read_text(path: &Path, most: u64) -> Result<String, ReadError> {
    let bytes = read(path, most)?;
    String::from_utf8(bytes).map_err(|error| ReadError::NoText(error.utf8_error().valid_up_to()))
}

/// Reads standard input as [`read()`] reads a path. /dev/null is empty.
///
/// # Errors
/// As of [`read()`].
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

/// What programs get that are given no input.
fn is_null(found: &Stat) -> bool {
    (major(found.st_rdev), minor(found.st_rdev)) == (1, 3)
}

/// Whether a device may be a terminal, by its number: consoles, the own terminal, pseudoterminals.
fn may_be_terminal(found: &Stat) -> bool {
    matches!(major(found.st_rdev), 4 | 5 | 136..=143)
}

fn size(found: &Stat) -> u64 {
    u64::try_from(found.st_size).unwrap_or(0)
}

fn read_within(path: &Path, most: u64, patience: Patience) -> Result<Vec<u8>, ReadError> {
    // Opening a device can do something already, so its kind is looked at before and after.
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

/// Reads everything that comes.
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
    // Files are always ready, but for some of the kernel's, which say so.
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
            // What was opened without waiting also has an end as long as nobody opened the other one.
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

/// Waits until something can be read or written; `false` if the time is over, counted from `since`.
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
