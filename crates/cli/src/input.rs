//! Topology files, wherever they come from.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use planner::Settings;
use topology::xml::{Document, Limits};
use topology::{BuildOptions, System};

use crate::output::Output;
use crate::suggest;

/// The file that stands for a machine in its folder.
const IN_FOLDER: &str = "topology.xml";

/// The version of AMD's files.
const RCCL_VERSION: i32 = 2;

/// A topology file that was read.
#[derive(Debug)]
pub struct Machine {
    /// What the machine is called: its file, or the folder when the file is called topology.xml.
    pub name: String,
    /// What stands in the file.
    pub document: Document,
}

impl Machine {
    /// Reads a file, a folder's topology.xml, or standard input (`-`). What is odd about it is added to the warnings.
    pub fn read(file: &Path, output: &mut Output) -> Result<Self> {
        let (name, label, bytes) = if file == Path::new("-") {
            let bytes =
                read_limited(std::io::stdin().lock()).context("cannot read standard input")?;
            (
                "standard input".to_owned(),
                "standard input".to_owned(),
                bytes,
            )
        } else {
            let path = resolve(file)?;
            let opened = std::fs::File::open(&path);
            let bytes = opened
                .and_then(read_limited)
                .with_context(|| format!("cannot read {}", path.display()))?;
            (machine_name(&path), path.display().to_string(), bytes)
        };
        let document = topology::xml::parse(&label, &bytes)?;
        output
            .warnings
            .extend(document.warnings.iter().map(ToString::to_string));
        Ok(Self { name, document })
    }

    /// Whether it is AMD's kind of file.
    pub const fn is_rccl(&self) -> bool {
        self.document.version == RCCL_VERSION
    }

    /// The machine as NCCL builds it.
    pub fn system(&self, settings: &Settings) -> Result<System> {
        if self.is_rccl() {
            bail!(
                "{} is a topology of AMD's RCCL (version 2): NCCL refuses it, and there is nothing to plan; \
                 `topo show` draws its tree",
                self.document.file
            );
        }
        let options = BuildOptions {
            split_partitions: settings.split_partitions,
            ..BuildOptions::default()
        };
        Ok(System::from_document_with(&self.document, options)?)
    }
}

/// Reads at most a little more than the reader of topologies takes, so that /dev/zero ends too.
fn read_limited(source: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source
        .take(Limits::default().bytes as u64 + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn resolve(file: &Path) -> Result<PathBuf> {
    match std::fs::metadata(file) {
        Ok(found) if found.is_dir() => {
            let inside = file.join(IN_FOLDER);
            if !inside.is_file() {
                bail!(
                    "{} is a folder without a {IN_FOLDER}{}{}",
                    file.display(),
                    question_for(&inside),
                    machines_in(file)
                );
            }
            Ok(inside)
        }
        Ok(_) => Ok(file.to_owned()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(anyhow!(
                "{}: no such file{}",
                file.display(),
                question_for(file)
            ))
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

/// Names folders inside that hold a machine.
fn machines_in(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut machines: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.join(IN_FOLDER).is_file())
        .collect();
    machines.sort();
    match machines.as_slice() {
        [] => String::new(),
        [only] => format!("; {} has one", only.display()),
        [first, .., last] => format!(
            "; {} of the folders in it have one, from {} to {}",
            machines.len(),
            first.display(),
            last.display()
        ),
    }
}

/// Asks for the nearest name in the deepest folder of the path that exists.
fn question_for(file: &Path) -> String {
    let parent = |path: &Path| match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Some(PathBuf::from(".")),
        parent => parent.map(Path::to_owned),
    };
    let mut missing = file.to_owned();
    let folder = loop {
        match parent(&missing) {
            Some(folder) if folder.is_dir() => break folder,
            Some(folder) => missing = folder,
            None => return String::new(),
        }
    };
    let Some(wanted) = missing
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
    else {
        return String::new();
    };
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let near = suggest::nearest(&wanted, names.iter().map(String::as_str), 1);
    let paths: Vec<String> = near
        .iter()
        .map(|name| {
            if folder == Path::new(".") {
                (*name).to_owned()
            } else {
                folder.join(name).display().to_string()
            }
        })
        .collect();
    suggest::question(&paths.iter().map(String::as_str).collect::<Vec<_>>())
}

fn machine_name(path: &Path) -> String {
    let stem = path
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default();
    if path.file_name().is_some_and(|name| name == IN_FOLDER) {
        let full = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if let Some(folder) = full.parent().and_then(Path::file_name) {
            return folder.to_string_lossy().into_owned();
        }
    }
    stem
}
