//! `cargo xtask matrix`: the whole correctness matrix, which the tests only sample, part after part.

use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Args;

/// Arguments of `cargo xtask matrix`.
#[derive(Args)]
pub struct Arguments {
    /// Into how many parts it is cut
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    parts: u32,
    /// The part to begin with, to go on where a run was ended
    #[arg(long, default_value_t = 1)]
    from: u32,
}

/// Runs the parts. The first that is wrong is the last.
///
/// # Errors
/// Cargo cannot be started.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
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
            println!("part {named}: wrong; `--from {part}` goes on here");
            return Ok(ExitCode::FAILURE);
        }
        println!(
            "part {named}: right, {:.0} s",
            began.elapsed().as_secs_f64()
        );
    }
    Ok(ExitCode::SUCCESS)
}
