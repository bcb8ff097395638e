//! Recordings: folders with everything that a probe read.
//!
//! A recording has `sys/` and `proc/` like the machine, `nvml.json` with the driver's answers,
//! `addresses.json` with the interfaces that have an address, and `options.json`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::nvml::Answers;
use crate::sysfs::{Entry, Sysfs};
use crate::{Addresses, Probe, ProbeOptions};

const NVML: &str = "nvml.json";

const ADDRESSES: &str = "addresses.json";

const OPTIONS: &str = "options.json";

/// Most bytes of a JSON document.
const DOCUMENT_LIMIT: u64 = 16 << 20;

/// Why a recording cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A file cannot be written or read.
    #[error("cannot {verb} {}: {why}", path.display())]
    File {
        /// `read`, `write` …
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        why: std::io::Error,
    },
    /// The folder is not empty.
    #[error("{} is not empty; a recording goes into a new or an empty folder", .0.display())]
    NotEmpty(PathBuf),
    /// The folder is no recording.
    #[error("{} is not a recording: it has neither sys/ nor {NVML}", .0.display())]
    NoRecording(PathBuf),
    /// A document is invalid.
    #[error("{}: {why}; expected a document of a recording", path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// The parser's error, with line and column.
        why: serde_json::Error,
    },
}

/// An open recording.
#[derive(Debug)]
pub struct Recording {
    /// The files.
    pub sysfs: Sysfs,
    /// The driver's answers.
    pub answers: Answers,
    /// Interfaces with an address, if recorded.
    pub addresses: Option<Addresses>,
    /// The options of the probe.
    pub options: ProbeOptions,
}

impl Recording {
    /// Whether a folder is a recording.
    pub fn is_one(folder: &Path) -> bool {
        folder.join("sys").is_dir() || folder.join(NVML).is_file()
    }

    /// Opens a recording.
    ///
    /// # Errors
    /// The folder is no recording, or a document in it is invalid.
    pub fn open(folder: &Path) -> Result<Self, RecordError> {
        if !Self::is_one(folder) {
            return Err(RecordError::NoRecording(folder.to_owned()));
        }
        let sysfs = Sysfs::new(folder);
        let answers = document(&sysfs, NVML)?;
        Ok(Self {
            answers: answers.unwrap_or_else(|| Answers::none("no answers were recorded")),
            addresses: document(&sysfs, ADDRESSES)?,
            options: document(&sysfs, OPTIONS)?.unwrap_or_default(),
            sysfs,
        })
    }
}

/// Reads a document; `None` if it is missing.
fn document<T: serde::de::DeserializeOwned>(
    sysfs: &Sysfs,
    name: &str,
) -> Result<Option<T>, RecordError> {
    let path = sysfs.root().join(name);
    let bytes = match sysfs.document(name, DOCUMENT_LIMIT) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(None),
        Err(why) => {
            let verb = "read";
            return Err(RecordError::File { verb, path, why });
        }
    };
    let read = serde_json::from_slice(&bytes);
    read.map(Some)
        .map_err(|why| RecordError::Document { path, why })
}

/// Saves what was read through `sysfs`, a [`Sysfs::recording`], and the probe's other inputs. The
/// files are written beside their place and moved, so that a recording is whole or absent.
///
/// # Errors
/// The folder is not empty, or a file cannot be written. Partial files are removed.
pub fn save(
    folder: &Path,
    sysfs: &Sysfs,
    probe: &Probe,
    addresses: Option<&Addresses>,
) -> Result<(), RecordError> {
    let missing: Vec<&Path> = folder
        .ancestors()
        .take_while(|it| !it.as_os_str().is_empty() && !it.exists())
        .collect();
    let saved = fs::create_dir_all(folder)
        .map_err(failed(folder))
        .and_then(|()| fill(folder, sysfs, probe, addresses));
    if saved.is_err() {
        for made in missing {
            // Fails for folders that existed or that somebody else uses by now.
            let _ = fs::remove_dir(made);
        }
    }
    saved
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> RecordError {
    let path = path.to_owned();
    move |why| RecordError::File {
        verb: "write",
        path,
        why,
    }
}

fn fill(
    folder: &Path,
    sysfs: &Sysfs,
    probe: &Probe,
    addresses: Option<&Addresses>,
) -> Result<(), RecordError> {
    let mut there = fs::read_dir(folder).map_err(failed(folder))?;
    if there.next().is_some() {
        return Err(RecordError::NotEmpty(folder.to_owned()));
    }
    let beside = tempfile::Builder::new()
        .prefix(".recording-")
        .tempdir_in(folder)
        .map_err(failed(folder))?;
    // Errors name the final place of the file.
    let make = |path: &Path, make: &dyn Fn(&Path) -> std::io::Result<()>| {
        let full = beside.path().join(path);
        let parent = full.parent().map_or(Ok(()), fs::create_dir_all);
        parent
            .and_then(|()| make(&full))
            .map_err(failed(&folder.join(path)))
    };
    make(Path::new("sys"), &|path| fs::create_dir_all(path))?;
    for (path, seen) in sysfs.seen() {
        make(Path::new(&path), &|path| match &seen {
            Entry::Folder => fs::create_dir_all(path),
            Entry::File(bytes) => fs::write(path, bytes),
            Entry::Link(target) => link(target, path),
        })?;
    }
    let write = |name: &str, text: serde_json::Result<String>| {
        let text = text.map_err(|why| RecordError::Document {
            path: folder.join(name),
            why,
        })?;
        make(Path::new(name), &|path| {
            fs::write(path, format!("{text}\n"))
        })
    };
    write(NVML, serde_json::to_string_pretty(&probe.answers))?;
    write(OPTIONS, serde_json::to_string_pretty(&probe.options))?;
    if let Some(addresses) = addresses {
        let hidden = sysfs.with_privacy(|privacy| addresses.hidden(privacy));
        let addresses = hidden.as_ref().unwrap_or(addresses);
        write(ADDRESSES, serde_json::to_string_pretty(addresses))?;
    }
    publish(beside.path(), folder)
}

/// Makes a symbolic link.
#[cfg(unix)]
fn link(target: &Path, path: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

/// Windows makes links for administrators alone, and has no names with a colon, as devices have.
#[cfg(not(unix))]
fn link(_: &Path, _: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Moves all files to their final place.
fn publish(from: &Path, to: &Path) -> Result<(), RecordError> {
    let mut moved: Vec<PathBuf> = Vec::new();
    let entries = fs::read_dir(from).map_err(failed(to))?;
    for entry in entries {
        let done = entry.and_then(|entry| {
            let place = to.join(entry.file_name());
            fs::rename(entry.path(), &place)?;
            moved.push(place);
            Ok(())
        });
        if let Err(error) = done {
            for place in &moved {
                // The first error is reported.
                let _ = fs::remove_dir_all(place).or_else(|_| fs::remove_file(place));
            }
            return Err(failed(to)(error));
        }
    }
    Ok(())
}
