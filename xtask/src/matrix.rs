//! `cargo xtask matrix`: the whole correctness matrix, of which the tests run a sample, in parts;
//! `cargo xtask phantom-matrix`: more of the CUDA backend's runs on phantom machines.

use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;

/// Arguments of `cargo xtask matrix`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Number of parts
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    parts: u32,
    /// First part, to continue an interrupted run
    #[arg(long, default_value_t = 1)]
    from: u32,
}

/// Runs the parts and stops at the first that fails.
///
/// # Errors
/// Cargo cannot be started.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let began = Instant::now();
    for part in arguments.from..=arguments.parts {
        let named = format!("{part}/{}", arguments.parts);
        let output = Command::new("cargo")
            .args(["test", "--release", "-p", "backend-cpu", "--test", "matrix"])
            .args(["--", "--ignored"])
            .env("TOPO_MATRIX_PART", &named)
            .stderr(Stdio::inherit())
            .output()
            .context("running cargo")?;
        if !output.status.success() {
            println!("{}", String::from_utf8_lossy(&output.stdout));
            println!("part {named}: wrong; `--from {part}` continues here");
            return Ok(ExitCode::FAILURE);
        }
        println!(
            "part {named}: right, {:.0} s",
            began.elapsed().as_secs_f64()
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Arguments of `cargo xtask phantom-matrix`.
#[derive(Args)]
pub(crate) struct PhantomArguments {
    /// Number of runs
    #[arg(long, default_value_t = 3_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    cases: u32,
}

/// Draws runs of the CUDA backend and runs them on phantom machines, and plants each kind of fault
/// in each part of `topo gpu-test`.
///
/// # Errors
/// Cargo cannot be started.
pub(crate) fn phantom(arguments: &PhantomArguments) -> Result<ExitCode> {
    let status = Command::new("cargo")
        .args(["test", "-p", "topo", "--features", "emulator", "--locked"])
        .args(["--test", "phantom", "--", "--ignored", "--nocapture"])
        .args(["deep_drawn_runs", "deep_faults_are_found"])
        .env("TOPO_PHANTOM_CASES", arguments.cases.to_string())
        .status()
        .context("running cargo")?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
