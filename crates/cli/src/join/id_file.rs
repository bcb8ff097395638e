//! Ids in files, which only their owner can read.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Context, Result};
use bootstrap::UniqueId;
use files::Folder;

/// Largest file that is read, bytes. An id has at most 64 addresses.
const FILE_LIMIT: u64 = 16 << 10;

/// The folder of a file, and its name there.
fn place(file: &Path) -> Result<(Folder, &OsStr)> {
    let name = file.file_name();
    let name = name.with_context(|| format!("{}: expected a file's name", file.display()))?;
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    Ok((Folder::open(folder)?, name))
}

/// The id that was given: as it is, or after an @ the file that holds it.
pub fn given(text: &str) -> Result<UniqueId> {
    let Some(file) = text.strip_prefix('@').map(Path::new) else {
        return Ok(text.parse()?);
    };
    let (folder, name) = place(file)?;
    let bytes = folder.read(name, FILE_LIMIT)?;
    let bytes = bytes.with_context(|| {
        format!(
            "cannot read {}: there is no such file; expected one from topo id -o",
            file.display()
        )
    })?;
    let id = String::from_utf8_lossy(&bytes).trim().parse();
    id.with_context(|| file.display().to_string())
}

/// Writes an id for this user alone.
pub fn write(file: &Path, id: &str) -> Result<()> {
    let (folder, name) = place(file)?;
    folder.write(name, id.as_bytes())?;
    Ok(())
}
