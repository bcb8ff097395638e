//! Test data outside the repository, in a folder that a variable names or in `shared` beside the
//! checkout.
//!
//! A test that needs it and does not find it is reported as not run.

use std::path::{Path, PathBuf};

/// All golden cases: `cases/*.json` and `topologies/*.xml`.
///
/// # Errors
/// They are not there. The text says where they were expected.
pub fn golden() -> Result<PathBuf, String> {
    find("TOPO_GOLDEN", "golden", "cases")
}

/// Golden cases in which NCCL merged network ports, with the same folders.
///
/// # Errors
/// They are not there. The text says where they were expected.
pub fn golden_with_merged_ports() -> Result<PathBuf, String> {
    find("TOPO_GOLDEN_FUSED", "golden-fused", "cases")
}

/// Answers of NCCL's published binaries: a folder for each version.
///
/// # Errors
/// They are not there. The text says where they were expected.
pub fn binaries() -> Result<PathBuf, String> {
    find("TOPO_BINARIES", "nccl-binaries", "2.30.7")
}

/// Other people's files: `nccl/*.xml`, `rccl/*.xml` and `graphs/*.xml`.
///
/// # Errors
/// They are not there. The text says where they were expected.
pub fn corpus() -> Result<PathBuf, String> {
    find("TOPO_CORPUS", "corpus", "nccl")
}

/// Which all-reduce inference engines take: `cases.jsonl`.
///
/// # Errors
/// It is not there. The text says where it was expected.
pub fn engines() -> Result<PathBuf, String> {
    find("TOPO_SPEC", "spec", "inference-allreduce").map(|it| it.join("inference-allreduce"))
}

fn find(variable: &str, name: &str, part: &str) -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().unwrap_or(root);
    let beside = root.parent().unwrap_or(&root).join("shared").join(name);
    let named = std::env::var_os(variable).map(PathBuf::from);
    let folder = named.as_ref().unwrap_or(&beside);
    if folder.join(part).is_dir() {
        return Ok(folder.clone());
    }
    Err(match named {
        Some(folder) => format!(
            "{variable} names {}, which has no folder {part}",
            folder.display()
        ),
        None => format!("{variable} is not set, and there is no shared/{name} beside the checkout"),
    })
}

/// The files and folders of a folder, by name.
///
/// # Errors
/// The folder cannot be read.
pub fn entries(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?;
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()?;
    paths.sort();
    Ok(paths)
}

/// The files of a folder with this extension, by name.
///
/// # Errors
/// The folder cannot be read.
pub fn files(folder: &Path, extension: &str) -> std::io::Result<Vec<PathBuf>> {
    let mut paths = entries(folder)?;
    paths.retain(|path| path.extension().is_some_and(|found| found == extension));
    Ok(paths)
}
