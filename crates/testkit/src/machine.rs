//! Machine folders. Each has a topology, the source of its facts, and what is expected of it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use topology::System;
use topology::xml::Document;

use crate::elsewhere::{entries, files};

/// The machine's topology file.
const TOPOLOGY: &str = "topology.xml";

/// The file with the machine's origin.
const ORIGIN: &str = "origin.toml";

/// The folder with answers of NCCL's own code.
const ANSWERS: &str = "nccl";

/// The kind of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Written from public facts about a machine.
    Model,
    /// Of random shape and numbers.
    Generated,
}

/// The expectation of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Expectation {
    /// The answers of NCCL in `nccl/` are binding.
    Nccl,
    /// The planner's output was reviewed and recorded.
    Blessed,
}

/// The content of `origin.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The machine's name for readers.
    pub name: String,
    /// Why it is in the repository, one line.
    pub summary: String,
    /// Its kind.
    pub kind: Kind,
    /// Its expectation.
    pub expectation: Expectation,
    /// Each fact with its source, or marked as assumed.
    pub facts: Vec<String>,
}

/// A machine folder.
#[derive(Debug, Clone)]
pub struct Machine {
    /// The folder's name.
    pub name: String,
    /// The folder.
    pub folder: PathBuf,
    /// Where it comes from.
    pub origin: Origin,
}

impl Machine {
    /// The folder of the repository's machines.
    pub fn home() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../topologies")
    }

    /// All machines of the repository, by name.
    ///
    /// # Errors
    /// A folder is not valid.
    pub fn all() -> Result<Vec<Self>> {
        Self::list(&Self::home())
    }

    /// The machine of the repository with this name.
    ///
    /// # Errors
    /// There is none, or its folder is not valid.
    pub fn named(name: &str) -> Result<Self> {
        Self::open(&Self::home().join(name))
    }

    /// The machines in a folder, by name.
    ///
    /// # Errors
    /// A folder is not valid, or there is no machine.
    pub fn list(home: &Path) -> Result<Vec<Self>> {
        let paths = entries(home).with_context(|| format!("reading {}", home.display()))?;
        let folders = paths.iter().filter(|path| path.is_dir());
        let machines: Vec<Self> = folders.map(|it| Self::open(it)).collect::<Result<_>>()?;
        ensure!(!machines.is_empty(), "no machine in {}", home.display());
        Ok(machines)
    }

    /// Opens a folder.
    ///
    /// # Errors
    /// Its `origin.toml` is not valid, or does not agree with the folder.
    pub fn open(folder: &Path) -> Result<Self> {
        let name = folder
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let name = name.with_context(|| format!("{} has no name", folder.display()))?;
        let path = folder.join(ORIGIN);
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("reading {}", path.display()))?;
        let origin =
            toml::from_str(&text).with_context(|| format!("parsing {}", path.display()))?;
        let machine = Self {
            name,
            folder: folder.to_owned(),
            origin,
        };
        machine
            .validate()
            .with_context(|| path.display().to_string())?;
        Ok(machine)
    }

    fn validate(&self) -> Result<()> {
        let origin = &self.origin;
        for (key, text) in [("name", &origin.name), ("summary", &origin.summary)] {
            let one_line = !text.trim().is_empty() && !text.contains('\n');
            ensure!(one_line, "`{key}` is {text:?}; expected one line of text");
        }
        ensure!(
            !origin.facts.is_empty(),
            "`facts` is empty; expected one sentence per fact"
        );
        ensure!(
            self.name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-'),
            "the folder is called {}; expected lower case with hyphens",
            self.name
        );
        let answers = self.answers()?.len();
        match origin.expectation {
            Expectation::Nccl if answers == 0 => {
                bail!("expectation = \"nccl\", but there is no {ANSWERS}/*.json")
            }
            Expectation::Blessed if answers > 0 => {
                bail!(
                    "expectation = \"blessed\", but {ANSWERS}/ contains answers of NCCL; set \"nccl\""
                )
            }
            _ => Ok(()),
        }
    }

    /// The topology file.
    pub fn topology(&self) -> PathBuf {
        self.folder.join(TOPOLOGY)
    }

    /// The topology file's bytes.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        let path = self.topology();
        std::fs::read(&path).with_context(|| format!("reading {}", path.display()))
    }

    /// The topology file as a document. Messages name it by the machine's name.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn document(&self) -> Result<Document> {
        let file = format!("{}/{TOPOLOGY}", self.name);
        Ok(topology::xml::parse(&file, &self.bytes()?)?)
    }

    /// The machine as NCCL builds it.
    ///
    /// # Errors
    /// The topology file cannot be read as a machine.
    pub fn system(&self) -> Result<System> {
        Ok(System::from_document(&self.document()?)?)
    }

    /// The files with answers of NCCL, by name.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn answers(&self) -> Result<Vec<PathBuf>> {
        let folder = self.folder.join(ANSWERS);
        if !folder.is_dir() {
            return Ok(Vec::new());
        }
        files(&folder, "json").with_context(|| format!("reading {}", folder.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "name = \"n\"\nsummary = \"s\"\nkind = \"model\"\nexpectation = \"blessed\"\nfacts = [\"f\"]\n";

    #[test]
    fn origins() {
        assert!(toml::from_str::<Origin>(GOOD).is_ok());
        for (bad, complaint) in [
            (GOOD.replace("\"model\"", "\"recorded\""), "unknown variant"),
            (format!("{GOOD}color = 1\n"), "unknown field `color`"),
            (GOOD.replace("facts", "fact"), "unknown field `fact`"),
            (GOOD.replace("name = \"n\"\n", ""), "missing field `name`"),
        ] {
            let error = toml::from_str::<Origin>(&bad).map_err(|error| error.to_string());
            assert!(
                error.as_ref().is_err_and(|error| error.contains(complaint)),
                "{error:?}"
            );
        }
    }
}
