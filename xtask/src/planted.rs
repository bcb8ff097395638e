//! `cargo xtask planted`: jobs of NCCL with planted faults, and what `topo diagnose` says of them.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use xtask::workspace::{cargo, exit};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Versions of NCCL, and parts of the names of kinds of faults; all if left out
    words: Vec<String>,
    /// Diagnose the logs of the last run, in target/planted, instead of running NCCL
    #[arg(long)]
    again: bool,
    /// Run the living jobs, which `topo watch` watches, instead
    #[arg(long, conflicts_with = "again")]
    watched: bool,
}

/// Runs the test program of planted faults, which prints a table.
///
/// # Errors
/// Cargo cannot be started.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let status = cargo()
        .args([
            "test",
            "--package",
            "topo",
            "--test",
            "planted",
            "--",
            "--table",
        ])
        .args(arguments.again.then_some("--again"))
        .args(arguments.watched.then_some("--watched"))
        .args(&arguments.words)
        .status()
        .context("starting cargo")?;
    Ok(exit(status.success()))
}
