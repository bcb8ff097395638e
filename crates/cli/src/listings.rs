//! Listings of one machine in several files, or in a folder.

use std::path::PathBuf;

use anyhow::{Result, bail};
use records::Listings;

use crate::output::Output;

/// Most files of a folder that are read.
const MOST_FILES: usize = 256;

/// The machine that texts describe together, each with its name in messages.
pub(crate) fn joined(
    label: &str,
    texts: &[(&str, &[u8])],
    output: &mut Output,
) -> Result<records::Machine> {
    let (mut used, mut other) = (Vec::new(), Vec::new());
    for (name, bytes) in texts {
        match Listings::read(name, bytes) {
            Ok(None) => other.push(*name),
            _ => used.push(*name),
        }
    }
    if !other.is_empty() && !used.is_empty() {
        output.warnings.push(format!(
            "{label}: read {}; nothing of a machine in {}",
            used.join(", "),
            other.join(", ")
        ));
    }
    match Listings::read_all(texts)? {
        Some(facts) => Ok(records::Machine::of(label, &facts)?),
        None => bail!(
            "{label}: no listing of a machine; expected the output of `nvidia-smi topo -m` or of \
             `lspci -vv` (as root) among the files"
        ),
    }
}

/// The content of a folder's files, if one of them is a listing of a machine; of all together at
/// most `most` bytes.
pub(crate) fn of_files(paths: impl Iterator<Item = PathBuf>, most: u64) -> Vec<(String, Vec<u8>)> {
    let mut left = most;
    let mut found = Vec::new();
    for path in paths.take(MOST_FILES) {
        let is_file = std::fs::metadata(&path).is_ok_and(|it| it.is_file());
        if let Some(bytes) = is_file.then(|| files::read(&path, left).ok()).flatten() {
            left -= bytes.len() as u64;
            found.push((path.display().to_string(), bytes));
        }
    }
    let is_listing =
        |(name, bytes): &(String, Vec<u8>)| !matches!(Listings::read(name, bytes), Ok(None));
    match found.iter().any(is_listing) {
        true => found,
        false => Vec::new(),
    }
}
