//! `topo run --new-id`: an id for ranks that are started by hand.

use anyhow::{Context, Result, bail};
use bootstrap::id::MOST_ROOTS;
use bootstrap::rendezvous::id_file;
use bootstrap::{Key, UniqueId};

use crate::arguments::join::IdArguments;
use crate::output::Output;

/// Prints a unique id, or writes it to a file.
pub(crate) fn id(arguments: &IdArguments, output: &mut Output) -> Result<()> {
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
