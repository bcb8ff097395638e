//! Inputs: a descriptor that is waited for.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, major, open, stat};
use rustix::io::Errno;
use rustix::termios::isatty;

use super::kind;
use crate::read::{MOST_PIPED, PIECE, Patience, ReadError};

/// How inputs are opened: without waiting, and without taking a terminal.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOCTTY);

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

/// Reads standard input; [`crate::standard_input`] says how.
pub(crate) fn standard_input(most: u64, patience: Patience) -> Result<Vec<u8>, ReadError> {
    let input = io::stdin();
    let found = fstat(&input)?;
    let source = match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Source::File,
        FileType::Fifo | FileType::Socket => Source::Pipe,
        FileType::CharacterDevice if isatty(&input) => Source::Terminal,
        FileType::CharacterDevice if is_null(&found) => return Ok(Vec::new()),
        other => return Err(ReadError::Kind(kind(other))),
    };
    take(input.as_fd(), source, size(&found), most, patience)
}

/// Whether it is `/dev/null`, the input of programs without one.
fn is_null(found: &Stat) -> bool {
    stat("/dev/null").is_ok_and(|null| null.st_rdev == found.st_rdev)
}

/// Whether a device is a console, the controlling terminal or a pseudoterminal. Linux knows them
/// by number, macOS by name.
fn may_be_terminal(path: &Path, found: &Stat) -> bool {
    let name = path.as_os_str().as_encoded_bytes();
    match cfg!(target_os = "linux") {
        true => matches!(major(found.st_rdev), 4 | 5 | 136..=143),
        false => name == b"/dev/tty" || name.starts_with(b"/dev/ttys"),
    }
}

fn size(found: &Stat) -> u64 {
    u64::try_from(found.st_size).unwrap_or(0)
}

/// Reads a path; [`crate::read()`] says how.
pub(crate) fn read(path: &Path, most: u64, patience: Patience) -> Result<Vec<u8>, ReadError> {
    // Opening a device can have effects, so check the type before and after.
    source(path, &stat(path)?)?;
    let file = open(path, READ, Mode::empty())?;
    let found = fstat(&file)?;
    let source = source(path, &found)?;
    if source == Source::Terminal && !isatty(&file) {
        return Err(ReadError::Kind(kind(FileType::CharacterDevice)));
    }
    take(file.as_fd(), source, size(&found), most, patience)
}

fn source(path: &Path, found: &Stat) -> Result<Source, ReadError> {
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Ok(Source::File),
        FileType::Fifo => Ok(Source::Fifo),
        FileType::CharacterDevice if may_be_terminal(path, found) => Ok(Source::Terminal),
        other => Err(ReadError::Kind(kind(other))),
    }
}

/// Opens a file that is read in pieces, and nothing else.
pub(crate) fn open_file(path: &Path) -> Result<File, ReadError> {
    // Opening a device can have effects, and a FIFO would wait.
    let found = FileType::from_raw_mode(stat(path)?.st_mode);
    if found != FileType::RegularFile {
        return Err(ReadError::Kind(kind(found)));
    }
    Ok(open(path, READ, Mode::empty())?.into())
}

/// Standard input as a file.
pub(crate) fn open_standard_input() -> io::Result<File> {
    Ok(rustix::io::dup(io::stdin())?.into())
}

/// The bytes of an open file; `None` for a pipe or a terminal.
pub(crate) fn bytes_of(file: &File) -> Result<Option<u64>, ReadError> {
    let found = fstat(file)?;
    match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Ok(Some(size(&found)).filter(|it| *it > 0)),
        FileType::Fifo | FileType::Socket | FileType::CharacterDevice => Ok(None),
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
pub(super) fn wait(
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

// macOS has no call that makes a FIFO in rustix, and no files of the kernel.
#[cfg(all(test, target_os = "linux"))]
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
        let error = read(&path, 100, SHORT).unwrap_err();
        assert!(matches!(error, ReadError::NoWriter(_)), "{error}");
        // A writer that is there but writes nothing has more time. It opens the FIFO for reading,
        // too, so that it need not wait for a reader.
        let writer = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path);
        let before = Instant::now();
        let error = read(&path, 100, SHORT).unwrap_err();
        assert!(matches!(error, ReadError::Silent(_)), "{error}");
        assert!(before.elapsed() >= SHORT.byte);
        drop(writer);
    }

    #[test]
    fn a_slow_writer_is_waited_for() {
        // All bytes together take longer than one may, which is 2 s more than one takes.
        const PAUSE: Duration = Duration::from_millis(1500);
        let patience = Patience {
            // Longer than another thread needs to open it, even on a busy machine.
            writer: Duration::from_secs(60),
            byte: Duration::from_millis(3500),
        };
        let (_folder, path) = fifo();
        let opened = path.clone();
        let writer = thread::spawn(move || {
            let mut file = std::fs::OpenOptions::new()
                .write(true)
                .open(opened)
                .unwrap();
            for byte in b"slow" {
                thread::sleep(PAUSE);
                file.write_all(&[*byte]).unwrap();
            }
        });
        assert_eq!(read(&path, 4, patience).unwrap(), b"slow");
        writer.join().unwrap();
    }

    #[test]
    fn a_file_of_the_kernel_is_read_though_it_says_that_it_is_empty() {
        let path = Path::new("/proc/self/status");
        let error = read(path, 4, SHORT).unwrap_err();
        assert!(matches!(error, ReadError::Endless { most: 4, .. }));
        assert!(!read(path, 1 << 20, SHORT).unwrap().is_empty());
    }
}
