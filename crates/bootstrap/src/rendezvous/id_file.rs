//! Ids in files, which only their owner can read.

use std::path::Path;

use crate::UniqueId;
use anyhow::{Context, Result};
use files::Folder;

use crate::rendezvous::split;

/// Largest file that is read, bytes. An id has at most 64 addresses.
const FILE_LIMIT: u64 = 16 << 10;

/// The id that was given: as it is, or after an @ the file that holds it.
///
/// # Errors
/// It is no id, or the file cannot be read.
pub(crate) fn given(text: &str) -> Result<UniqueId> {
    let Some(file) = text.strip_prefix('@').map(Path::new) else {
        return Ok(text.parse()?);
    };
    let (folder, name) = split(file)?;
    let folder = Folder::open(folder)?;
    let bytes = folder.read(name, FILE_LIMIT)?;
    let bytes = bytes.with_context(|| {
        format!(
            "cannot read {}: there is no such file; expected a file with a unique id",
            file.display()
        )
    })?;
    let id = String::from_utf8_lossy(&bytes).trim().parse();
    id.with_context(|| file.display().to_string())
}

/// Writes an id for this user alone.
///
/// # Errors
/// The file cannot be written.
pub fn write(file: &Path, id: &str) -> Result<()> {
    let written = files::write_private(file, id.as_bytes());
    written.with_context(|| format!("cannot write {}", file.display()))
}
