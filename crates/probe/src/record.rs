//! Recordings: folders that hold what was read of a machine, and nothing else of it.
//!
//! Such a folder has `sys/` and `proc/` as the machine has them, `nvml.json` with the driver's answers, `addresses.json` with
//! the names of the interfaces that have an address, and `options.json` with what was asked for.

use std::fs;
use std::path::{Path, PathBuf};

use crate::nvml::Answers;
use crate::sysfs::{Seen, Sysfs};
use crate::{Addresses, Options, Probe};

/// The driver's answers.
const NVML: &str = "nvml.json";

/// Interfaces with an address.
const ADDRESSES: &str = "addresses.json";

/// What was asked for.
const OPTIONS: &str = "options.json";

/// Most bytes of a document that are read.
const DOCUMENT_LIMIT: u64 = 16 << 20;

/// Why a recording cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A file could not be written or read.
    #[error("cannot {verb} {}: {source}", path.display())]
    File {
        /// `read`, `write` …
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The folder holds something already.
    #[error("{} is not empty; a recording goes into a new or an empty folder", .0.display())]
    NotEmpty(PathBuf),
    /// The folder is no recording.
    #[error("{} is not a recording: it has neither sys/ nor {NVML}; make one with `topo probe --record DIR`", .0.display())]
    NoRecording(PathBuf),
    /// A document is not what it should be.
    #[error("{}: {source}; expected what `topo probe --record` writes", path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// What is wrong, with line and column.
        source: serde_json::Error,
    },
}

/// A recording that was opened.
#[derive(Debug)]
pub struct Recording {
    /// Its files.
    pub sysfs: Sysfs,
    /// The driver's answers.
    pub answers: Answers,
    /// Interfaces with an address, where that was recorded.
    pub addresses: Option<Addresses>,
    /// What was asked for.
    pub options: Options,
}

impl Recording {
    /// Whether a folder is a recording.
    pub fn is_one(folder: &Path) -> bool {
        folder.join("sys").is_dir() || folder.join(NVML).is_file()
    }

    /// Opens a folder.
    ///
    /// # Errors
    /// It is no recording, or a document in it is damaged.
    pub fn open(folder: &Path) -> Result<Self, RecordError> {
        if !Self::is_one(folder) {
            return Err(RecordError::NoRecording(folder.to_owned()));
        }
        let answers = document(&folder.join(NVML))?;
        Ok(Self {
            sysfs: Sysfs::new(folder),
            answers: answers.unwrap_or_else(|| Answers::none("no answers were recorded")),
            addresses: document(&folder.join(ADDRESSES))?,
            options: document(&folder.join(OPTIONS))?.unwrap_or_default(),
        })
    }
}

/// Reads a document, if it is there.
fn document<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, RecordError> {
    let size = match fs::metadata(path) {
        Ok(found) if found.is_file() => found.len(),
        _ => return Ok(None),
    };
    let failed = |source| RecordError::File {
        verb: "read",
        path: path.to_owned(),
        source,
    };
    if size > DOCUMENT_LIMIT {
        return Err(failed(std::io::Error::other(format!(
            "more than {DOCUMENT_LIMIT} bytes"
        ))));
    }
    let bytes = fs::read(path).map_err(failed)?;
    let read = serde_json::from_slice(&bytes);
    read.map(Some).map_err(|source| RecordError::Document {
        path: path.to_owned(),
        source,
    })
}

/// Writes what was read through `sysfs`, which must have been made to record, and what was used beside it.
///
/// # Errors
/// The folder is not empty, or a file cannot be written.
pub fn save(
    folder: &Path,
    sysfs: &Sysfs,
    probe: &Probe,
    addresses: Option<&Addresses>,
) -> Result<(), RecordError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| RecordError::File {
            verb: "write",
            path,
            source,
        }
    };
    fs::create_dir_all(folder).map_err(failed(folder))?;
    if fs::read_dir(folder)
        .map_err(failed(folder))?
        .next()
        .is_some()
    {
        return Err(RecordError::NotEmpty(folder.to_owned()));
    }
    fs::create_dir_all(folder.join("sys")).map_err(failed(folder))?;
    for (path, seen) in sysfs.seen() {
        let path = folder.join(&path);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(failed(parent))?;
        match seen {
            Seen::Folder => fs::create_dir_all(&path).map_err(failed(&path))?,
            Seen::File(bytes) => fs::write(&path, bytes).map_err(failed(&path))?,
            Seen::Link(target) => link(&target, &path).map_err(failed(&path))?,
        }
    }
    let write = |name: &str, text: serde_json::Result<String>| {
        let path = folder.join(name);
        let text = text.map_err(|source| RecordError::Document {
            path: path.clone(),
            source,
        })?;
        fs::write(&path, text + "\n").map_err(failed(&path))
    };
    write(NVML, serde_json::to_string_pretty(&probe.answers))?;
    write(OPTIONS, serde_json::to_string_pretty(&probe.options))?;
    if let Some(addresses) = addresses {
        let hidden = sysfs.with_privacy(|privacy| addresses.hidden(privacy));
        let addresses = hidden.as_ref().unwrap_or(addresses);
        write(ADDRESSES, serde_json::to_string_pretty(addresses))?;
    }
    Ok(())
}

#[cfg(unix)]
fn link(target: &Path, path: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

#[cfg(not(unix))]
fn link(_: &Path, _: &Path) -> std::io::Result<()> {
    Err(std::io::Error::other("no symbolic links here"))
}
