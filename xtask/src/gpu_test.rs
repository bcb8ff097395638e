//! `cargo xtask gpu-test`: every check that needs a GPU.
//!
//! The program that does it is `topo gpu-test`; the kernels are in it. So a machine with a GPU needs neither cargo nor a
//! compiler nor a network: build here (`cargo build --release -p topo`), copy `target/release/topo` there, and run it.

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::Args;

use crate::measure;

/// Arguments of `cargo xtask gpu-test`.
#[derive(Args)]
pub struct Arguments {
    /// Passed on to topo gpu-test
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Builds the program if it is not there, and runs it.
///
/// # Errors
/// It cannot be built or started.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let program = measure::topo(None)?;
    let status = Command::new(&program)
        .arg("gpu-test")
        .args(&arguments.rest)
        .status()
        .with_context(|| format!("starting {}", program.display()))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
