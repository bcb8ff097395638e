//! Joining ranks that others started: which rank this is, where the ranks meet, and the bootstrap that comes of it.
//!
//! In reading order: [`launcher`], [`meeting`], [`meeting_file`].

mod id_file;
pub mod launcher;
pub mod meeting;
mod meeting_file;

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
        bail!("{root}: expected a port that is not 0, for all ranks must know it");
    }
    let key = Key::random().context("there are no random bytes for a token")?;
    let id = format!("{}\n", UniqueId { key, roots });
    match &arguments.output {
        Some(file) => id_file::write(file, &id)?,
        None => output.text = id,
    }
    Ok(())
}
