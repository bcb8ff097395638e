//! Writes outputs: files whole or not at all; pipes and devices directly.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::{OPEN_TIME, SILENCE, system};

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
    /// The existing file is another user's, or the new one cannot be private.
    #[cfg(target_os = "linux")]
    #[error(transparent)]
    Private(#[from] crate::private::PrivateError),
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

/// Standard output as a file.
const OUTPUT: &str = "/dev/stdout";

/// The kind of a path as an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A file, or nothing yet.
    File,
    /// A pipe or a device.
    Direct,
    /// Something that cannot be written, by its name.
    No(&'static str),
}

/// Writes a file whole or not at all; an existing file stays until it is replaced. Pipes and
/// devices are written directly. The target of a link is replaced, not the link.
///
/// # Errors
/// It cannot be written. A partial file is removed.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    write_with(path, bytes, |folder, path| {
        replace(path, beside(folder, bytes)?)
    })
}

/// Writes several files: all of them, or none if one cannot be written. They are replaced in this
/// order, after all were written beside their places.
///
/// # Errors
/// A file cannot be written, with its path.
pub fn write_all(files: &[(PathBuf, &[u8])]) -> Result<(), (PathBuf, WriteError)> {
    let mut written = Vec::new();
    for (path, bytes) in files {
        let found = file_at(path).and_then(|found| match found {
            Some((folder, path)) => Ok(Some((path, beside(&folder, bytes)?))),
            None => Ok(None),
        });
        written.push(found.map_err(|why| (path.clone(), why))?);
    }
    for ((path, bytes), written) in files.iter().zip(written) {
        let done = match written {
            Some((path, file)) => replace(&path, file),
            None => write_directly(path, bytes),
        };
        done.map_err(|why| (path.clone(), why))?;
    }
    Ok(())
}

/// Writes bytes to a new file of a folder, which is removed unless it replaces another one.
fn beside(folder: &Path, bytes: &[u8]) -> Result<NamedTempFile, WriteError> {
    system::within_limit(bytes)?;
    let mut file = system::builder().tempfile_in(folder)?;
    file.write_all(bytes)?;
    Ok(file)
}

fn replace(path: &Path, file: NamedTempFile) -> Result<(), WriteError> {
    file.persist(path).map_err(|failed| failed.error)?;
    Ok(())
}

/// Like [`write`](fn@write), but the file is for this user alone, and replaces no file of another
/// user.
///
/// # Errors
/// It cannot be written. A partial file is removed.
#[cfg(target_os = "linux")]
pub fn write_private(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    use crate::private::{Folder, Replaces};
    write_with(path, bytes, |folder, path| {
        let Some(name) = path.file_name() else {
            return Err(WriteError::Kind("path without a file's name"));
        };
        Folder::open(folder)?.write(name, bytes, Replaces::Any)?;
        Ok(())
    })
}

/// Writes pipes and devices directly; gives `whole` the folder and the path of a file.
fn write_with(
    path: &Path,
    bytes: &[u8],
    whole: impl FnOnce(&Path, &Path) -> Result<(), WriteError>,
) -> Result<(), WriteError> {
    match file_at(path)? {
        Some((folder, path)) => whole(&folder, &path),
        None => write_directly(path, bytes),
    }
}

/// The folder and the path of a file without links; `None` for what is written directly.
fn file_at(path: &Path) -> Result<Option<(PathBuf, PathBuf)>, WriteError> {
    // It may be a file that others write, too.
    if path == Path::new(OUTPUT) {
        return Ok(None);
    }
    match system::place(path) {
        Place::No(kind) => return Err(WriteError::Kind(kind)),
        Place::Direct => return Ok(None),
        Place::File => {}
    }
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new(".")).to_owned();
    match folder.is_dir() {
        true => Ok(Some((folder, path))),
        false => Err(WriteError::NoFolder(folder)),
    }
}

fn write_directly(path: &Path, bytes: &[u8]) -> Result<(), WriteError> {
    if path != Path::new(OUTPUT) {
        return system::write_to(path, bytes);
    }
    let mut output = io::stdout().lock();
    output.write_all(bytes)?;
    Ok(output.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_a_device_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for text in [&b"first"[..], b"second"] {
            write(&path, text).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), text);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        write(
            Path::new(if cfg!(windows) { "NUL" } else { "/dev/null" }),
            b"gone",
        )
        .unwrap();
        let error = write(folder.path(), b"text").unwrap_err();
        assert!(matches!(error, WriteError::Kind("folder")), "{error}");
        let error = write(&folder.path().join("no/file"), b"text").unwrap_err();
        assert!(matches!(error, WriteError::NoFolder(_)), "{error}");
    }

    #[test]
    fn several_files_are_all_written_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|it| folder.path().join(it));
        let wrong = folder.path().join("no/file");
        let all = |paths: [&PathBuf; 2]| paths.map(|it| (it.clone(), &b"text"[..]));
        let (path, error) = write_all(&all([&first, &wrong])).unwrap_err();
        assert!(
            path == wrong && matches!(error, WriteError::NoFolder(_)),
            "{error}"
        );
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        write_all(&all([&first, &second])).unwrap();
        assert_eq!(std::fs::read(&second).unwrap(), b"text");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_private_file_replaces_no_device_and_no_link() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let [target, link, lost] = ["target", "link", "lost"].map(|it| folder.path().join(it));
        std::fs::write(&target, "old").unwrap();
        symlink("target", &link).unwrap();
        symlink("nothing", &lost).unwrap();
        write_private(&link, b"new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read(&target).unwrap(), b"new");
        let mode = target.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // A link to the device: a mistake here must not harm the machine.
        let device = folder.path().join("device");
        symlink("/dev/full", &device).unwrap();
        let error = write_private(&device, b"text").unwrap_err();
        assert!(matches!(error, WriteError::System(_)), "{error}");
        assert!(device.is_symlink());
        for write in [write, write_private] {
            let error = write(&lost, b"text").unwrap_err();
            assert!(matches!(error, WriteError::Kind(_)), "{error}");
            assert!(lost.is_symlink());
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4);
    }
}
