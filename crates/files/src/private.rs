//! Files that only this user can use, although everybody knows where they are.

use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::kind;

/// Rights of anybody but the owner. Access control lists show in those of the group.
const OTHERS: u32 = 0o077;

/// Names that are tried for a file beside another one.
const TRIES: u32 = 16;

/// Why something cannot be used as this user's alone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrivateError {
    /// The system refuses.
    #[error("cannot {verb} {}: {why}", path.display())]
    System {
        /// `read`, `write` …
        verb: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// It is something else.
    #[error("{} is a {found}; expected a {expected}", path.display())]
    Kind {
        /// What was found.
        path: PathBuf,
        /// What it is.
        found: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// It is somebody else's.
    #[error(
        "{} belongs to user {owner}, and this is user {user}; expected a {kind} of this user: let its owner remove it, or \
         name another place",
        path.display()
    )]
    Foreign {
        /// What was found.
        path: PathBuf,
        /// File or folder.
        kind: &'static str,
        /// The number of the user to whom it belongs.
        owner: u32,
        /// That of this process.
        user: u32,
    },
    /// Others can use it too.
    #[error(
        "other users can use {} (mode {mode:03o}); expected a {kind} for this user alone (chmod {wanted:03o})",
        path.display()
    )]
    Open {
        /// What was found.
        path: PathBuf,
        /// File or folder.
        kind: &'static str,
        /// Its rights.
        mode: u32,
        /// Those that are expected.
        wanted: u32,
    },
    /// It is longer than any file that was written here.
    #[error("{} has more than {most} bytes, the most that are read", path.display())]
    Long {
        /// The file.
        path: PathBuf,
        /// The limit.
        most: u64,
    },
}

/// A folder that was opened once: whatever others do to its name afterwards, files are looked for in this one.
#[derive(Debug)]
pub struct Folder {
    descriptor: OwnedFd,
    path: PathBuf,
}

/// A file that was written into a folder.
#[derive(Debug)]
pub struct Written {
    folder: Folder,
    name: std::ffi::OsString,
    /// Device and number.
    identity: (u64, u64),
}

impl Folder {
    /// Opens any folder. Its files are checked one by one.
    ///
    /// # Errors
    /// It is not there, or is no folder.
    pub fn open(path: &Path) -> Result<Self, PrivateError> {
        Self::open_with(path, OFlags::empty())
    }

    /// Opens a folder that belongs to this user and that nobody else can use.
    ///
    /// # Errors
    /// It is not there, is no folder, or others can use it.
    pub fn open_own(path: &Path) -> Result<Self, PrivateError> {
        let folder = Self::open_with(path, OFlags::NOFOLLOW).or_else(|error| {
            // The reason may be whose it is.
            let found = rustix::fs::lstat(path).ok();
            let found = found.filter(|found| is(found, FileType::Directory));
            found.map_or(Ok(()), |found| check(path, &found, "folder", 0o700))?;
            Err(error)
        })?;
        let found = rustix::fs::fstat(&folder.descriptor);
        let found = found.map_err(|error| system("read", path, error))?;
        check(path, &found, "folder", 0o700)?;
        Ok(folder)
    }

    /// The same, and makes it if it is not there.
    ///
    /// # Errors
    /// It cannot be made, or something else is there.
    pub fn make_own(path: &Path) -> Result<Self, PrivateError> {
        match rustix::fs::mkdir(path, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => Self::open_own(path),
            Err(error) => Err(system("make", path, error)),
        }
    }

    fn open_with(path: &Path, flags: OFlags) -> Result<Self, PrivateError> {
        let flags = flags | OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(descriptor) => Ok(Self {
                descriptor,
                path: path.to_owned(),
            }),
            Err(error) => Err(match rustix::fs::lstat(path) {
                Ok(found) if !is(&found, FileType::Directory) => other(path, &found, "folder"),
                _ => system("open", path, error),
            }),
        }
    }

    /// Where a file of the folder is.
    pub fn path_of(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    /// Reads a file of this user, at most `most` bytes; none if there is no such file. It is opened once, so what is
    /// checked is what is read.
    ///
    /// # Errors
    /// It is no file, is somebody else's, or others can use it; or it is too long.
    pub fn read(&self, name: &OsStr, most: u64) -> Result<Option<Vec<u8>>, PrivateError> {
        let path = self.path_of(name);
        let failed = |error| system("read", &path, error);
        // Opening a device can do something already, so its kind is looked at before and after.
        match rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if is(&found, FileType::RegularFile) => {}
            Ok(found) => return Err(other(&path, &found, "file")),
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(failed(error)),
        }
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.descriptor, name, flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => {
                // The reason may be whose it is.
                let found = rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW);
                found.map_or(Ok(()), |found| check(&path, &found, "file", 0o600))?;
                return Err(failed(error));
            }
        };
        let found = rustix::fs::fstat(&file).map_err(failed)?;
        if !is(&found, FileType::RegularFile) {
            return Err(other(&path, &found, "file"));
        }
        check(&path, &found, "file", 0o600)?;
        let mut bytes = Vec::new();
        let read = File::from(file).take(most + 1).read_to_end(&mut bytes);
        read.map_err(|why| PrivateError::System {
            verb: "read",
            path: path.clone(),
            why,
        })?;
        if bytes.len() as u64 > most {
            return Err(PrivateError::Long { path, most });
        }
        Ok(Some(bytes))
    }

    /// Writes a file for this user alone, in place of one that is there: beside it, and then renames it.
    ///
    /// # Errors
    /// It cannot be written, or what is there cannot be replaced.
    pub fn write(self, name: &OsStr, bytes: &[u8]) -> Result<Written, PrivateError> {
        let path = self.path_of(name);
        let failed = |why: io::Error| PrivateError::System {
            verb: "write",
            path: path.clone(),
            why,
        };
        let (beside, mut file) = self.new_file().map_err(failed)?;
        let written = (|| {
            file.write_all(bytes).map_err(failed)?;
            let found = rustix::fs::fstat(&file).map_err(|error| failed(error.into()))?;
            let renamed = rustix::fs::renameat(&self.descriptor, &beside, &self.descriptor, name);
            renamed.map_err(|error| self.why_not_replaced(name, error))?;
            Ok((found.st_dev, found.st_ino))
        })();
        match written {
            Ok(identity) => Ok(Written {
                folder: self,
                name: name.to_owned(),
                identity,
            }),
            Err(error) => {
                let _ = rustix::fs::unlinkat(&self.descriptor, &beside, AtFlags::empty());
                Err(error)
            }
        }
    }

    /// Makes a file under a name that nobody can guess.
    fn new_file(&self) -> io::Result<(String, File)> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let mut refused = Errno::EXIST;
        for _ in 0..TRIES {
            let name = format!(".topo-{:016x}", RandomState::new().build_hasher().finish());
            match rustix::fs::openat(&self.descriptor, &name, flags, Mode::RUSR | Mode::WUSR) {
                Ok(file) => return Ok((name, File::from(file))),
                Err(error) => refused = error,
            }
            if refused != Errno::EXIST {
                break;
            }
        }
        Err(refused.into())
    }

    /// Why a file cannot be put in place of what is there.
    fn why_not_replaced(&self, name: &OsStr, error: Errno) -> PrivateError {
        let path = self.path_of(name);
        match rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if is(&found, FileType::Directory) => other(&path, &found, "file"),
            Ok(found) => match check(&path, &found, "file", 0o600) {
                Err(foreign @ PrivateError::Foreign { .. }) => foreign,
                _ => system("write", &path, error),
            },
            Err(_) => system("write", &path, error),
        }
    }
}

impl Written {
    /// Removes the file, unless another one has taken its place.
    pub fn remove(&self) {
        let folder = &self.folder.descriptor;
        let found = rustix::fs::statat(folder, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        if found.is_ok_and(|found| (found.st_dev, found.st_ino) == self.identity) {
            // One that is gone already needs nothing.
            let _ = rustix::fs::unlinkat(folder, &self.name, AtFlags::empty());
        }
    }
}

fn is(found: &Stat, wanted: FileType) -> bool {
    FileType::from_raw_mode(found.st_mode) == wanted
}

fn other(path: &Path, found: &Stat, expected: &'static str) -> PrivateError {
    PrivateError::Kind {
        path: path.to_owned(),
        found: kind(FileType::from_raw_mode(found.st_mode)),
        expected,
    }
}

fn system(verb: &'static str, path: &Path, error: Errno) -> PrivateError {
    PrivateError::System {
        verb,
        path: path.to_owned(),
        why: error.into(),
    }
}

/// Whether something is this user's alone.
fn check(path: &Path, found: &Stat, kind: &'static str, wanted: u32) -> Result<(), PrivateError> {
    let user = rustix::process::geteuid().as_raw();
    let mode = found.st_mode & 0o777;
    if found.st_uid != user {
        return Err(PrivateError::Foreign {
            path: path.to_owned(),
            kind,
            owner: found.st_uid,
            user,
        });
    }
    if mode & OTHERS != 0 {
        return Err(PrivateError::Open {
            path: path.to_owned(),
            kind,
            mode,
            wanted,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own");
        (folder, path)
    }

    #[test]
    fn what_was_written_is_read_and_removed() {
        let (_folder, path) = folder();
        let name = OsStr::new("file");
        let open = || Folder::make_own(&path).unwrap();
        assert_eq!(open().read(name, 9).unwrap(), None);
        let first = open().write(name, b"first").unwrap();
        assert_eq!(open().read(name, 5).unwrap().unwrap(), b"first");
        let second = open().write(name, b"second").unwrap();
        // The first one was replaced, so it is not there to be removed.
        first.remove();
        let error = open().read(name, 5).unwrap_err();
        assert!(
            matches!(error, PrivateError::Long { most: 5, .. }),
            "{error}"
        );
        assert_eq!(open().read(name, 6).unwrap().unwrap(), b"second");
        second.remove();
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_was_opened_stays_the_one_that_is_used() {
        let (_folder, path) = folder();
        let name = OsStr::new("file");
        let opened = Folder::make_own(&path).unwrap();
        std::fs::rename(&path, path.with_extension("moved")).unwrap();
        drop(
            Folder::make_own(&path)
                .unwrap()
                .write(name, b"other")
                .unwrap(),
        );
        assert_eq!(opened.read(name, 9).unwrap(), None);
    }
}
