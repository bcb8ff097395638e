//! `cargo xtask loom`: the memory order of what ranks share, under the model checker loom.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

/// Runs the models of `shared-memory`, which are its unit tests when it is compiled with `--cfg loom`.
///
/// # Errors
/// Cargo cannot be started.
pub fn run() -> Result<ExitCode> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // A folder of its own, for other flags would make everything else be compiled again.
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), Into::into);
    let status = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(["test", "--package", "shared-memory", "--release", "--lib"])
        .args(["--config", "profile.release.lto=\"off\""])
        .current_dir(root)
        .env("RUSTFLAGS", "--cfg loom")
        .env("CARGO_TARGET_DIR", target.join("loom"))
        .status()
        .context("starting cargo")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
