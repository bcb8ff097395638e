//! Joining ranks of several processes: which rank this is, and where the ranks meet.
//!
//! In reading order: [`launcher`], [`meeting`], [`meeting_file`].

mod found;
mod id_file;
pub mod launcher;
pub mod meeting;
mod meeting_file;

use std::ffi::OsStr;
use std::path::Path;

use crate::arguments::join::IdArguments;
use crate::output::Output;
use anyhow::{Context, Result, bail};
use bootstrap::id::MOST_ROOTS;
use bootstrap::{Key, UniqueId};

/// `topo id`: prints a unique id, or writes it to a file.
pub fn id(arguments: &IdArguments, output: &mut Output) -> Result<()> {
    let roots = arguments.roots.clone();
    if roots.len() > MOST_ROOTS {
        bail!("{} roots; expected {MOST_ROOTS} at most", roots.len());
    }
    if let Some(root) = roots.iter().find(|it| it.port() == 0) {
        bail!("{root}: expected a port of 1 to 65535, since all ranks must know it");
    }
    let key = Key::random().context("there are no random bytes for a token")?;
    let id = format!("{}\n", UniqueId { key, roots });
    match &arguments.output {
        Some(file) => id_file::write(file, &id)?,
        None => output.text = id,
    }
    Ok(())
}

/// The folder of a file, and the file's name in it.
fn split(file: &Path) -> Result<(&Path, &OsStr)> {
    let name = file.file_name();
    let name = name.with_context(|| format!("{}: expected a file's name", file.display()))?;
    let folder = file.parent().filter(|it| !it.as_os_str().is_empty());
    Ok((folder.unwrap_or(Path::new(".")), name))
}
