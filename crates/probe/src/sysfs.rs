//! Files of `/sys` and `/proc` below a root.
//!
//! A file that cannot be read counts as absent, so that a replay gives the same answers as the
//! recorded machine. Links that leave the root lead nowhere: a recording must not show files of
//! this machine.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::folder::Folder;
use crate::privacy::Privacy;

/// Limit on the size of a file, bytes. Attributes of sysfs and config spaces have at most 4096.
const FILE_LIMIT: u64 = 8 << 10;

/// Limit on the entries of a folder.
const FOLDER_LIMIT: usize = 1 << 14;

/// A folder with `sys/` and `proc/`: `/` or a recording.
///
/// Paths are given without the leading slash, such as `sys/class/net`.
#[derive(Debug)]
pub struct Sysfs {
    root: PathBuf,
    /// Everything is opened below it. `None` if the root cannot be opened.
    folder: Option<Folder>,
    log: Option<RefCell<Log>>,
}

/// The files that were read so far.
#[derive(Debug, Default)]
struct Log {
    seen: BTreeMap<String, Entry>,
    privacy: Privacy,
}

/// An entry of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A folder that was listed or is the target of a link.
    Folder,
    /// A file's content.
    File(Vec<u8>),
    /// A symbolic link's target.
    Link(PathBuf),
}

impl Sysfs {
    /// Reads below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self {
            folder: Folder::new(&root),
            root,
            log: None,
        }
    }

    /// Reads below `root` and records. Unless `identifiers` is set, identifiers of the machine are
    /// replaced on reading, so that the recording gives the same answers.
    pub fn recording(root: impl Into<PathBuf>, identifiers: bool) -> Self {
        let log = Log {
            privacy: Privacy::new(identifiers),
            ..Log::default()
        };
        Self {
            log: Some(RefCell::new(log)),
            ..Self::new(root)
        }
    }

    /// The root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether the root is `/`.
    pub fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// All recorded entries, by path.
    pub fn seen(&self) -> BTreeMap<String, Entry> {
        self.log
            .as_ref()
            .map(|log| log.borrow().seen.clone())
            .unwrap_or_default()
    }

    /// Returns a file's content.
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(path)
            .ok()??
            .take(FILE_LIMIT)
            .read_to_end(&mut bytes)
            .ok()?;
        match &self.log {
            None => Some(bytes),
            Some(log) => {
                let mut log = log.borrow_mut();
                let bytes = log.privacy.file(path, bytes);
                log.seen.insert(path.to_owned(), Entry::File(bytes.clone()));
                Some(bytes)
            }
        }
    }

    /// Returns a file's text, trimmed. Invalid UTF-8 is replaced.
    pub fn text(&self, path: &str) -> Option<String> {
        let bytes = self.bytes(path)?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// Returns the sorted names in a folder.
    pub fn names(&self, path: &str) -> Vec<String> {
        let folder = self.folder.as_ref();
        let Some(Ok(entries)) = folder.map(|it| it.entries(&self.full(path))) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .take(FOLDER_LIMIT)
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        if let Some(log) = &self.log {
            let mut log = log.borrow_mut();
            log.seen.entry(path.to_owned()).or_insert(Entry::Folder);
            names = names.iter().map(|name| log.privacy.name(name)).collect();
            names.sort();
        }
        names
    }

    /// Whether a folder or file exists.
    pub fn exists(&self, path: &str) -> bool {
        let found = self.metadata(path);
        if let (Some(log), Some(found)) = (&self.log, &found)
            && found.is_dir()
        {
            log.borrow_mut()
                .seen
                .entry(path.to_owned())
                .or_insert(Entry::Folder);
        }
        match found {
            Some(found) if found.is_file() => self.bytes(path).is_some(),
            Some(_) => true,
            None => false,
        }
    }

    /// Returns a whole file of at most `most` bytes without recording it; `None` if it is missing.
    ///
    /// # Errors
    /// The file is longer, leads out of the root, or cannot be read.
    pub fn document(&self, path: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = self.open(path)? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        file.take(most + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most {
            return Err(io::Error::other(format!("more than {most} bytes")));
        }
        Ok(Some(bytes))
    }

    /// Opens a regular file without blocking, because a recording may contain anything.
    fn open(&self, path: &str) -> io::Result<Option<File>> {
        let Some(folder) = &self.folder else {
            return Ok(None);
        };
        let full = self.full(path);
        let file = match folder.metadata(&full) {
            Ok(found) if found.is_file() => folder.open(&full)?,
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let is_file = file.metadata()?.is_file();
        Ok(is_file.then_some(file))
    }

    fn metadata(&self, path: &str) -> Option<Metadata> {
        self.folder.as_ref()?.metadata(&self.full(path)).ok()
    }

    /// The target of a symbolic link as a path below the root.
    pub fn link(&self, path: &str) -> Option<String> {
        let folder = self.folder.as_ref()?;
        let mut target = folder.link(&self.full(path)).ok()?;
        if let Some(log) = &self.log {
            target = log.borrow_mut().privacy.path(target.to_str()?).into();
        }
        let resolved = resolve(path, &target)?;
        if let Some(log) = &self.log {
            let is_folder = self.metadata(&resolved).is_some_and(|found| found.is_dir());
            let mut log = log.borrow_mut();
            log.seen.insert(path.to_owned(), Entry::Link(target));
            if is_folder {
                log.seen.entry(resolved.clone()).or_insert(Entry::Folder);
            }
        }
        Some(resolved)
    }

    /// The real path of a path with replaced names.
    fn full(&self, path: &str) -> PathBuf {
        match &self.log {
            Some(log) => log.borrow().privacy.real_path(path).into(),
            None => path.into(),
        }
    }

    /// Applies the recording's replacement to other values; `None` if nothing is recorded.
    pub(crate) fn with_privacy<T>(&self, act: impl FnOnce(&mut Privacy) -> T) -> Option<T> {
        self.log
            .as_ref()
            .map(|log| act(&mut log.borrow_mut().privacy))
    }
}

/// Resolves a relative link. Folders above links of sysfs are never links themselves.
fn resolve(link: &str, target: &Path) -> Option<String> {
    let target = target.to_str()?;
    let mut parts: Vec<&str> = link.split('/').collect();
    parts.pop();
    if target.starts_with('/') {
        return None;
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_resolved_below_the_root() {
        let link = "sys/bus/pci/devices/0000:01:00.0";
        let resolved = |target| resolve(link, Path::new(target));
        assert_eq!(
            resolved("../../../devices/pci0000:00/0000:01:00.0").as_deref(),
            Some("sys/devices/pci0000:00/0000:01:00.0")
        );
        assert_eq!(resolved("../../../../../etc/passwd"), None);
        assert_eq!(resolved("/etc/passwd"), None);
    }
}
