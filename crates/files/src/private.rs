//! Files at known places that only this user can access.

use std::ffi::OsStr;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::unix::{kind, within_limit};

/// Permissions of group and others. Access control lists show up in those of the group.
const OTHERS: u32 = 0o077;

/// Names to try for a temporary file.
const TRIES: u32 = 16;

/// Why a file or folder is not private or cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrivateError {
    /// A system call failed.
    #[error("cannot {verb} {}: {why}", path.display())]
    System {
        /// `read`, `write` …
        verb: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        why: io::Error,
    },
    /// The file type is wrong.
    #[error("{} is a {found}; expected a {expected}", path.display())]
    Kind {
        /// The path.
        path: PathBuf,
        /// The type found.
        found: &'static str,
        /// The expected type.
        expected: &'static str,
    },
    /// It belongs to another user.
    #[error(
        "{} belongs to user {owner}, and this is user {user}; expected a {kind} of this user: let its owner remove it, or \
         name another place",
        path.display()
    )]
    OtherOwner {
        /// The path.
        path: PathBuf,
        /// `file` or `folder`.
        kind: &'static str,
        /// The owner's user id.
        owner: u32,
        /// The user id of this process.
        user: u32,
    },
    /// Other users have access.
    #[error(
        "other users can use {} (mode {mode:03o}); expected a {kind} for this user alone (chmod {wanted:03o})",
        path.display()
    )]
    Open {
        /// The path.
        path: PathBuf,
        /// `file` or `folder`.
        kind: &'static str,
        /// The permissions.
        mode: u32,
        /// The expected permissions.
        wanted: u32,
    },
    /// The existing file has other content than the file that would replace it.
    #[error(
        "{} exists and does not begin with `{expected}`, so it is not replaced; expected a new name, or remove the file",
        path.display()
    )]
    OtherContent {
        /// The file.
        path: PathBuf,
        /// How it would have to begin.
        expected: &'static str,
    },
    /// The file is too long.
    #[error("{} has more than {most} bytes, the most that are read", path.display())]
    Long {
        /// The file.
        path: PathBuf,
        /// The limit.
        most: u64,
    },
}

/// An open folder. Renaming or replacing its path later has no effect.
#[derive(Debug)]
pub struct Folder {
    descriptor: OwnedFd,
    path: PathBuf,
}

/// The files that [`Folder::write`] replaces. Other users' files, and what is not a regular file,
/// are never replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaces {
    /// Any regular file of this user.
    Any,
    /// Only a file that begins with these bytes.
    Begins(&'static str),
}

/// A file that [`Folder::write`] has written.
#[derive(Debug)]
pub struct CreatedFile {
    folder: Folder,
    name: std::ffi::OsString,
    /// Device and inode.
    identity: (u64, u64),
}

impl Folder {
    /// Opens any folder; its files are checked one by one.
    ///
    /// # Errors
    /// It does not exist or is no folder.
    pub fn open(path: &Path) -> Result<Self, PrivateError> {
        Self::open_with(path, OFlags::empty())
    }

    /// Opens a folder that belongs to this user and is closed to others.
    ///
    /// # Errors
    /// It does not exist, is no folder, or is not private.
    pub fn open_own(path: &Path) -> Result<Self, PrivateError> {
        let folder = Self::open_with(path, OFlags::NOFOLLOW).or_else(|error| {
            // The owner may explain the failure.
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

    /// Like [`Self::open_own`], and creates the folder if it does not exist.
    ///
    /// # Errors
    /// It cannot be created, or is not private.
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

    /// The path of a file in the folder.
    pub fn path_of(&self, name: &OsStr) -> PathBuf {
        self.path.join(name)
    }

    /// Reads a private file of at most `most` bytes; `None` if it does not exist. Permissions are
    /// checked on the open file, so no other file can take its place in between.
    ///
    /// # Errors
    /// It is no file, is not private, or is too long.
    pub fn read(&self, name: &OsStr, most: u64) -> Result<Option<Vec<u8>>, PrivateError> {
        let path = self.path_of(name);
        let failed = |error| system("read", &path, error);
        // Opening a device can have effects, so check the type before and after.
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
                // The owner may explain the failure.
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
        read.map_err(|error| system("read", &path, error))?;
        if bytes.len() as u64 > most {
            return Err(PrivateError::Long { path, most });
        }
        Ok(Some(bytes))
    }

    /// Writes a private temporary file that then replaces an existing one.
    ///
    /// # Errors
    /// It cannot be written, or the existing file must not be replaced.
    pub fn write(
        self,
        name: &OsStr,
        bytes: &[u8],
        replaces: Replaces,
    ) -> Result<CreatedFile, PrivateError> {
        let path = self.path_of(name);
        let failed = |error: io::Error| system("write", &path, error);
        self.check_replaced(name, replaces)?;
        within_limit(bytes).map_err(failed)?;
        let (beside, mut file) = self.new_file().map_err(failed)?;
        let written = (|| {
            file.write_all(bytes).map_err(failed)?;
            let found = rustix::fs::fstat(&file).map_err(|error| failed(error.into()))?;
            let renamed = rustix::fs::renameat(&self.descriptor, &beside, &self.descriptor, name);
            renamed.map_err(|error| failed(error.into()))?;
            Ok((found.st_dev, found.st_ino))
        })();
        match written {
            Ok(identity) => Ok(CreatedFile {
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

    /// Creates a file under a random name.
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

    /// Checks that the existing file, if there is one, may be replaced.
    fn check_replaced(&self, name: &OsStr, replaces: Replaces) -> Result<(), PrivateError> {
        let path = self.path_of(name);
        match rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if is(&found, FileType::RegularFile) => check_owner(&path, &found, "file")?,
            Ok(found) => return Err(other(&path, &found, "file")),
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(system("write", &path, error)),
        }
        let Replaces::Begins(expected) = replaces else {
            return Ok(());
        };
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match rustix::fs::openat(&self.descriptor, name, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(()),
            Err(error) => return Err(system("read", &path, error)),
        };
        let mut begin = Vec::new();
        let read = file.take(expected.len() as u64).read_to_end(&mut begin);
        read.map_err(|error| system("read", &path, error))?;
        // An empty file holds nothing to lose.
        match begin.is_empty() || begin == expected.as_bytes() {
            true => Ok(()),
            false => Err(PrivateError::OtherContent { path, expected }),
        }
    }
}

impl CreatedFile {
    /// Removes the file unless another one has replaced it.
    pub fn remove(&self) {
        let folder = &self.folder.descriptor;
        let found = rustix::fs::statat(folder, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        if found.is_ok_and(|found| (found.st_dev, found.st_ino) == self.identity) {
            // An error means that it is gone already.
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

fn system(verb: &'static str, path: &Path, error: impl Into<io::Error>) -> PrivateError {
    PrivateError::System {
        verb,
        path: path.to_owned(),
        why: error.into(),
    }
}

/// Checks that a file or folder belongs to this user and is closed to others.
fn check(path: &Path, found: &Stat, kind: &'static str, wanted: u32) -> Result<(), PrivateError> {
    check_owner(path, found, kind)?;
    let mode = found.st_mode & 0o777;
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

fn check_owner(path: &Path, found: &Stat, kind: &'static str) -> Result<(), PrivateError> {
    let user = rustix::process::geteuid().as_raw();
    match found.st_uid == user {
        true => Ok(()),
        false => Err(PrivateError::OtherOwner {
            path: path.to_owned(),
            kind,
            owner: found.st_uid,
            user,
        }),
    }
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
        let first = open().write(name, b"first", Replaces::Any).unwrap();
        assert_eq!(open().read(name, 5).unwrap().unwrap(), b"first");
        let second = open().write(name, b"second", Replaces::Any).unwrap();
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
                .write(name, b"other", Replaces::Any)
                .unwrap(),
        );
        assert_eq!(opened.read(name, 9).unwrap(), None);
    }

    #[test]
    fn only_regular_files_with_the_expected_beginning_are_replaced() {
        let (_folder, path) = folder();
        let open = || Folder::make_own(&path).unwrap();
        let write = |name: &str, replaces| open().write(OsStr::new(name), b"topo1-new", replaces);
        let ours = Replaces::Begins("topo1-");
        drop(open());
        std::fs::write(path.join("thesis"), "mine").unwrap();
        std::fs::write(path.join("stale"), "topo1-old").unwrap();
        std::os::unix::fs::symlink("thesis", path.join("link")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path.join("socket")).unwrap();
        let fifo = rustix::fs::mknodat(
            rustix::fs::CWD,
            path.join("fifo"),
            FileType::Fifo,
            Mode::RUSR | Mode::WUSR,
            0,
        );
        fifo.unwrap();
        for (name, replaces, problem) in [
            ("thesis", ours, "does not begin with `topo1-`"),
            ("link", ours, "is a symbolic link"),
            ("socket", Replaces::Any, "is a socket"),
            ("fifo", Replaces::Any, "is a FIFO"),
        ] {
            let before = std::fs::symlink_metadata(path.join(name)).unwrap();
            let error = write(name, replaces).unwrap_err().to_string();
            assert!(error.contains(problem), "{name}: {error}");
            let after = std::fs::symlink_metadata(path.join(name)).unwrap();
            assert_eq!(before.file_type(), after.file_type(), "{name}");
        }
        assert_eq!(std::fs::read(path.join("thesis")).unwrap(), b"mine");
        write("stale", ours).unwrap();
        assert_eq!(std::fs::read(path.join("stale")).unwrap(), b"topo1-new");
        write("new", ours).unwrap();
    }
}
