//! Windows, which has no descriptors that can be waited for: a pipe is read by a thread.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read, Write};
use std::os::windows::io::AsHandle;
use std::path::{Component, Path, Prefix};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;

use crate::read::{MOST_PIPED, PIECE, Patience, ReadError};
use crate::write::{Place, WriteError};

/// Names that are devices in every folder, with any extension; COM and LPT have a digit.
const DEVICES: [&str; 6] = ["AUX", "CON", "CONIN$", "CONOUT$", "NUL", "PRN"];

/// Devices with a digit.
const PORTS: [&str; 2] = ["COM", "LPT"];

/// Whether a path is a device or a pipe by its name. Opening one can have effects.
fn is_device(path: &Path) -> bool {
    let in_devices = |it: Component<'_>| match it {
        Component::Prefix(prefix) => matches!(prefix.kind(), Prefix::DeviceNS(_)),
        _ => false,
    };
    if path.components().any(in_devices) {
        return true;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.split(['.', ':']).next().unwrap_or_default();
    let stem = stem.trim_end().to_ascii_uppercase();
    let is_port = |port: &&str| {
        let number = stem.strip_prefix(port).map(|it| it.chars());
        number.is_some_and(|mut it| {
            it.next().is_some_and(|it| it.is_numeric()) && it.next().is_none()
        })
    };
    DEVICES.contains(&stem.as_str()) || PORTS.iter().any(|port| is_port(&port))
}

/// Opens a file, and nothing else.
pub(crate) fn open_file(path: &Path) -> Result<File, ReadError> {
    if is_device(path) {
        return Err(ReadError::Kind("device"));
    }
    if std::fs::metadata(path)?.is_dir() {
        return Err(ReadError::Kind("folder"));
    }
    let file = File::open(path)?;
    match is_file(&file) {
        true => Ok(file),
        false => Err(ReadError::Kind("device")),
    }
}

/// Whether it is on a disk; the system knows no more about pipes and devices.
fn is_file(file: &File) -> bool {
    file.metadata().is_ok_and(|it| it.is_file())
}

/// Standard input as a file.
pub(crate) fn open_standard_input() -> io::Result<File> {
    Ok(io::stdin().as_handle().try_clone_to_owned()?.into())
}

/// The bytes of an open file; `None` for a pipe or a console.
pub(crate) fn bytes_of(file: &File) -> Result<Option<u64>, ReadError> {
    let bytes = is_file(file).then(|| file.metadata().map(|it| it.len()));
    Ok(bytes.transpose()?.filter(|it| *it > 0))
}

/// Reads a path; [`crate::read()`] says how.
pub(crate) fn read(path: &Path, most: u64, _: Patience) -> Result<Vec<u8>, ReadError> {
    read_file(open_file(path)?, most)
}

/// Reads standard input; [`crate::standard_input`] says how.
pub(crate) fn standard_input(most: u64, patience: Patience) -> Result<Vec<u8>, ReadError> {
    let input = open_standard_input()?;
    if is_file(&input) {
        return read_file(input, most);
    }
    let is_terminal = io::stdin().is_terminal();
    let most = most.min(MOST_PIPED);
    let pieces = pieces_of(input)?;
    let mut bytes = Vec::new();
    loop {
        let piece = match is_terminal {
            true => pieces.recv().map_err(|_| RecvTimeoutError::Disconnected),
            false => pieces.recv_timeout(patience.byte),
        };
        match piece {
            Ok(piece) => bytes.extend(piece?),
            Err(RecvTimeoutError::Disconnected) => return Ok(bytes),
            Err(RecvTimeoutError::Timeout) => return Err(ReadError::Silent(patience.byte)),
        }
        if bytes.len() as u64 > most {
            let from = if is_terminal { "terminal" } else { "pipe" };
            return Err(ReadError::Endless { most, from });
        }
    }
}

fn read_file(file: File, most: u64) -> Result<Vec<u8>, ReadError> {
    let size = file.metadata()?.len();
    if size > most {
        return Err(ReadError::Long { bytes: size, most });
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most {
        true => Err(ReadError::Endless { most, from: "file" }),
        false => Ok(bytes),
    }
}

/// The pieces that a thread reads, until the end or an error. The thread ends with the process.
fn pieces_of(mut input: File) -> io::Result<Receiver<io::Result<Vec<u8>>>> {
    let (pieces, read) = sync_channel(1);
    thread::Builder::new().spawn(move || {
        let mut piece = vec![0; PIECE];
        loop {
            let arrived = match input.read(&mut piece) {
                Ok(0) => return,
                Ok(bytes) => Ok(piece[..bytes].to_vec()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let failed = arrived.is_err();
            if pieces.send(arrived).is_err() || failed {
                return;
            }
        }
    })?;
    Ok(read)
}

/// The kind of a path as an output.
pub(crate) fn place(path: &Path) -> Place {
    match path.is_dir() {
        _ if is_device(path) => Place::Direct,
        true => Place::No("folder"),
        false => Place::File,
    }
}

/// Windows has no limit on the length of a file that a process writes.
#[expect(clippy::unnecessary_wraps, reason = "other systems have a limit")]
pub(crate) fn within_limit(_: &[u8]) -> std::io::Result<()> {
    Ok(())
}

/// A builder of files.
pub(crate) fn builder() -> tempfile::Builder<'static, 'static> {
    tempfile::Builder::new()
}

/// Writes to a pipe or a device.
pub(crate) fn write_to(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    let mut file = OpenOptions::new().write(true).open(path)?;
    Ok(file.write_all(bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_names_of_their_own() {
        for device in [
            "NUL",
            "nul.xml",
            "C:\\folder\\con",
            "COM1",
            "lpt9.txt",
            r"\\.\pipe\it",
        ] {
            assert!(is_device(Path::new(device)), "{device}");
        }
        for file in [
            "null",
            "company.xml",
            "COM",
            "lpt10",
            "topology.xml",
            r"\\host\share\a",
        ] {
            assert!(!is_device(Path::new(file)), "{file}");
        }
    }
}
