//! The rank of this process, and the place where the ranks of its job meet.
//!
//! In reading order: [`launcher`], [`meeting`], `meeting_file`, [`id_file`].

mod found;
pub mod id_file;
pub mod launcher;
pub mod meeting;
mod meeting_file;
mod unknown;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Context, Result};

pub use found::FoundJob;
pub use launcher::{LaunchedRank, Launcher, Launchers};
pub use unknown::JobUnknown;

/// Environment variables by name.
pub type Variables = BTreeMap<String, String>;

/// A person's facts about the ranks of a job; launchers say the rest.
#[derive(Debug, Clone, Default)]
pub struct JobOptions {
    /// Launchers whose variables are read.
    pub launchers: Launchers,
    /// The rank of this process.
    pub rank: Option<u32>,
    /// Ranks of the job.
    pub world: Option<u32>,
    /// The job's id, or after an @ a file that holds it.
    pub id: Option<String>,
    /// Where the ranks meet: `file:PATH` or `tcp:HOST:PORT`.
    pub place: Option<String>,
}

/// The folder of a file, and the file's name in it.
fn split(file: &Path) -> Result<(&Path, &OsStr)> {
    let name = file.file_name();
    let name = name.with_context(|| format!("{}: expected a file's name", file.display()))?;
    let folder = file.parent().filter(|it| !it.as_os_str().is_empty());
    Ok((folder.unwrap_or(Path::new(".")), name))
}
