//! Files of `/sys` and `/proc`, below a root that can be moved.
//!
//! Whatever cannot be read counts as absent: a machine without a file and a machine that refuses to show it are planned
//! alike, and a replay gives what the recording gave.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::privacy::Privacy;

/// Most bytes of one file that are read. Attributes of sysfs have at most a page, the config space of PCI Express too.
const FILE_LIMIT: u64 = 8 << 10;

/// Most entries of one folder that are looked at.
const FOLDER_LIMIT: usize = 1 << 14;

/// A folder that holds `sys/` and `proc/`: `/` on the machine itself, a recording elsewhere.
///
/// Paths are given without the leading slash, such as `sys/class/net`.
#[derive(Debug)]
pub struct Sysfs {
    root: PathBuf,
    log: Option<RefCell<Log>>,
}

/// What was read, for a recording.
#[derive(Debug, Default)]
struct Log {
    seen: BTreeMap<String, Seen>,
    privacy: Privacy,
}

/// One thing that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// A folder that was listed, or that something points to.
    Folder,
    /// A file with its content.
    File(Vec<u8>),
    /// A symbolic link with its target.
    Link(PathBuf),
}

impl Sysfs {
    /// Reads below `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            log: None,
        }
    }

    /// Reads below `root` and keeps what was read. Identifiers of the machine are replaced as they are read, unless they
    /// are asked for, so that the recording gives the same answers as the recorded machine gave.
    pub fn recording(root: impl Into<PathBuf>, identifiers: bool) -> Self {
        let log = Log {
            privacy: Privacy::new(identifiers),
            ..Log::default()
        };
        Self {
            root: root.into(),
            log: Some(RefCell::new(log)),
        }
    }

    /// The folder that is read.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether this is the machine itself.
    pub fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// What was read so far, by path.
    pub fn seen(&self) -> BTreeMap<String, Seen> {
        self.log
            .as_ref()
            .map(|log| log.borrow().seen.clone())
            .unwrap_or_default()
    }

    /// A file's bytes.
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let full = self.full(path);
        // A recording from elsewhere may hold anything: only plain files are opened.
        if !fs::metadata(&full).ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        File::open(full)
            .ok()?
            .take(FILE_LIMIT)
            .read_to_end(&mut bytes)
            .ok()?;
        match &self.log {
            None => Some(bytes),
            Some(log) => {
                let mut log = log.borrow_mut();
                let bytes = log.privacy.file(path, bytes);
                log.seen.insert(path.to_owned(), Seen::File(bytes.clone()));
                Some(bytes)
            }
        }
    }

    /// A file's text without the white space around it; bytes that are no text are replaced.
    pub fn text(&self, path: &str) -> Option<String> {
        let bytes = self.bytes(path)?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// The names in a folder, sorted.
    pub fn names(&self, path: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.full(path)) else {
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
            log.seen.entry(path.to_owned()).or_insert(Seen::Folder);
            names = names.iter().map(|name| log.privacy.name(name)).collect();
            names.sort();
        }
        names
    }

    /// Whether there is a folder or a file.
    pub fn exists(&self, path: &str) -> bool {
        let found = fs::metadata(self.full(path));
        if let (Some(log), Ok(found)) = (&self.log, &found)
            && found.is_dir()
        {
            log.borrow_mut()
                .seen
                .entry(path.to_owned())
                .or_insert(Seen::Folder);
        }
        match found {
            Ok(found) if found.is_file() => self.bytes(path).is_some(),
            Ok(_) => true,
            Err(_) => false,
        }
    }

    /// Where a symbolic link points to, as a path below the root. Links that leave the root lead nowhere.
    pub fn link(&self, path: &str) -> Option<String> {
        let mut target = fs::read_link(self.full(path)).ok()?;
        if let Some(log) = &self.log {
            target = log.borrow_mut().privacy.path(target.to_str()?).into();
        }
        let resolved = resolve(path, &target)?;
        if let Some(log) = &self.log {
            let is_folder = fs::metadata(self.full(&resolved)).is_ok_and(|found| found.is_dir());
            let mut log = log.borrow_mut();
            log.seen.insert(path.to_owned(), Seen::Link(target));
            if is_folder {
                log.seen.entry(resolved.clone()).or_insert(Seen::Folder);
            }
        }
        Some(resolved)
    }

    /// Where something is, whose path may have replaced names in it.
    fn full(&self, path: &str) -> PathBuf {
        match &self.log {
            Some(log) => self.root.join(log.borrow().privacy.real_path(path)),
            None => self.root.join(path),
        }
    }

    /// Gives the rules by which identifiers of the machine are hidden, for answers that come from elsewhere.
    pub(crate) fn with_privacy<T>(&self, act: impl FnOnce(&mut Privacy) -> T) -> Option<T> {
        self.log
            .as_ref()
            .map(|log| act(&mut log.borrow_mut().privacy))
    }
}

/// The path that a relative link means. Folders of sysfs above a link are never links themselves.
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
