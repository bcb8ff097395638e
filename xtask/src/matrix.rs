//! `cargo xtask matrix`: the whole correctness matrix, which the tests only sample.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

pub fn run() -> Result<ExitCode> {
    let status = Command::new("cargo")
        .args(["test", "--release", "-p", "backend-cpu", "--test", "matrix"])
        .args(["--", "--ignored", "--nocapture"])
        .status()
        .context("running cargo")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
