//! The common parts of chores: the repository, its build results, cargo, and how a chore ends.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{fs, io};

use anyhow::{Context, Result};

/// The repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The folder of build results.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository().join("target"), Into::into)
}

/// NCCL's libraries, each in a folder named by its version (`cargo xtask fetch nccl`).
pub fn nccl_libraries() -> PathBuf {
    target().join("nccl")
}

/// NVIDIA's driver libraries, each in a folder named by its version (`cargo xtask fetch drivers`).
pub fn driver_libraries() -> PathBuf {
    target().join("drivers")
}

/// The folder of the page that plans in the browser (`cargo xtask web`).
pub fn web() -> PathBuf {
    target().join("web")
}

/// Cargo in the repository.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.current_dir(repository());
    cargo
}

/// The compiler's name of this platform.
pub fn triple() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

/// The exit status of a check.
pub fn exit(passed: bool) -> ExitCode {
    ExitCode::from(u8::from(!passed))
}

/// Writes a file beside its place, then moves it there, so that no half file remains.
///
/// # Errors
/// The file cannot be written.
pub fn write_beside(file: &Path, bytes: &[u8]) -> Result<()> {
    let beside = file.with_extension("new");
    let written: io::Result<()> = (|| {
        fs::create_dir_all(file.parent().unwrap_or(file))?;
        fs::write(&beside, bytes)?;
        fs::rename(&beside, file)
    })();
    written.with_context(|| format!("writing {}", file.display()))
}
