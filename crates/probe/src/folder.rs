//! A folder out of which no link leads.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

/// Most links of one path, as in Linux.
const MOST_LINKS: u32 = 40;

/// A folder below which everything is opened. Links are followed one by one, and one that leaves
/// the folder is an error. Nobody else may change the folder meanwhile.
#[derive(Debug)]
pub(crate) struct Folder {
    root: PathBuf,
    /// The root is `/`, which nothing leaves.
    is_whole: bool,
}

impl Folder {
    /// The folder, if it is one.
    pub(crate) fn new(root: &Path) -> Option<Self> {
        root.is_dir().then(|| Self {
            root: root.to_owned(),
            is_whole: root == Path::new("/"),
        })
    }

    /// Opens a file without waiting for the other end of a FIFO.
    pub(crate) fn open(&self, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true);
        no_wait(&mut options, !self.is_whole);
        options.open(self.real(path, true)?)
    }

    /// What a path, or the target of its link, is.
    pub(crate) fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        fs::metadata(self.real(path, true)?)
    }

    /// The entries of a folder.
    pub(crate) fn entries(&self, path: &Path) -> io::Result<fs::ReadDir> {
        fs::read_dir(self.real(path, true)?)
    }

    /// The target of a link, wherever it leads.
    pub(crate) fn link(&self, path: &Path) -> io::Result<PathBuf> {
        fs::read_link(self.real(path, false)?)
    }

    /// The path without links, but for the last part unless `last` is set.
    fn real(&self, path: &Path, last: bool) -> io::Result<PathBuf> {
        if self.is_whole {
            return Ok(self.root.join(path));
        }
        let mut real = self.root.clone();
        let mut depth = 0_u32;
        let mut links = 0;
        let mut parts = parts(path)?;
        while let Some(part) = parts.pop_front() {
            if part == ".." {
                depth = depth.checked_sub(1).ok_or_else(leaves)?;
                real.pop();
                continue;
            }
            real.push(part);
            depth += 1;
            if parts.is_empty() && !last || !fs::symlink_metadata(&real)?.is_symlink() {
                continue;
            }
            links += 1;
            if links > MOST_LINKS {
                return Err(io::Error::other("too many links"));
            }
            let target = fs::read_link(&real)?;
            real.pop();
            depth -= 1;
            for part in self::parts(&target)?.into_iter().rev() {
                parts.push_front(part);
            }
        }
        Ok(real)
    }
}

/// The parts of a relative path.
fn parts(path: &Path) -> io::Result<VecDeque<OsString>> {
    let parts = path.components().filter(|it| *it != Component::CurDir);
    let part = |part: Component| match part {
        Component::Normal(_) | Component::ParentDir => Ok(part.as_os_str().to_owned()),
        _ => Err(leaves()),
    };
    parts.map(part).collect()
}

fn leaves() -> io::Error {
    io::Error::new(
        ErrorKind::PermissionDenied,
        "the path leads out of the folder",
    )
}

/// Opens without waiting, and, if links have been followed before, no other link.
#[cfg(unix)]
fn no_wait(options: &mut OpenOptions, is_real: bool) {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt;
    let mut flags = OFlags::NONBLOCK;
    flags.set(OFlags::NOFOLLOW, is_real);
    options.custom_flags(flags.bits() as i32);
}

/// Folders of Windows have no FIFOs.
#[cfg(not(unix))]
fn no_wait(_: &mut OpenOptions, _: bool) {}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_link_leaves_the_folder() {
        let all = tempfile::tempdir().unwrap();
        let root = all.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/file"), "inside").unwrap();
        fs::write(all.path().join("file"), "outside").unwrap();
        let links = [
            ("a/b/near", "../file"),
            ("a/up", "b/../../a"),
            ("chain", "a/up/b/near"),
            ("absolute", "/etc/passwd"),
            ("out", "../file"),
            ("a/b/out", "../../../file"),
            ("a/b/through", "../../out"),
            ("circle", "circle"),
            ("nowhere", "a/none"),
        ];
        for (path, target) in links {
            symlink(target, root.join(path)).unwrap();
        }
        let folder = Folder::new(&root).unwrap();
        let read = |path: &str| {
            let file = folder.open(Path::new(path));
            file.and_then(io::read_to_string)
        };
        for path in ["a/file", "a/b/near", "a/up/file", "chain", "./a/../a/file"] {
            assert_eq!(read(path).unwrap(), "inside", "{path}");
        }
        let outside = all.path().join("file");
        for path in [
            "absolute",
            "out",
            "a/b/out",
            "a/b/through",
            "circle",
            "../file",
            "a/../../file",
            outside.to_str().unwrap(),
        ] {
            let error = read(path).unwrap_err();
            assert_ne!(error.kind(), ErrorKind::NotFound, "{path}");
        }
        for path in ["nowhere", "a/none", "a/none/.."] {
            assert_eq!(
                read(path).unwrap_err().kind(),
                ErrorKind::NotFound,
                "{path}"
            );
        }
        let whole = Folder::new(Path::new("/")).unwrap();
        let near = root.join("a/b/near");
        let opened = whole.open(near.strip_prefix("/").unwrap()).unwrap();
        assert_eq!(io::read_to_string(opened).unwrap(), "inside");
        assert_eq!(folder.link(Path::new("out")).unwrap(), Path::new("../file"));
        assert!(folder.link(Path::new("a/b/through/x")).is_err());
        assert_eq!(folder.entries(Path::new("a/up")).unwrap().count(), 3);
    }
}
