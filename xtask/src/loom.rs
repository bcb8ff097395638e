//! `cargo xtask loom`: the memory order of what ranks share, under the model checker loom.

use std::process::ExitCode;

use anyhow::{Context, Result};
use xtask::workspace::{cargo, exit, target};

/// Runs the models of `shared-memory`, which are its unit tests if compiled with `--cfg loom`.
///
/// # Errors
/// Cargo cannot be started.
pub(crate) fn run() -> Result<ExitCode> {
    let status = cargo()
        .args(["test", "--package", "shared-memory", "--release", "--lib"])
        .env("RUSTFLAGS", "--cfg loom")
        // A folder of its own: other flags would compile everything else again.
        .env("CARGO_TARGET_DIR", target().join("loom"))
        .status()
        .context("starting cargo")?;
    Ok(exit(status.success()))
}
