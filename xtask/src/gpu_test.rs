//! `cargo xtask gpu-test`: every check that needs a GPU.
//!
//! The program that does it is `topo gpu-test`; the kernels are in it. So a machine with a GPU needs neither cargo nor a
//! compiler nor a network: build here (`cargo build --release -p topo`), copy `target/release/topo` there, and run it.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::Args;

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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let program = target.join("release/topo");
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--package", "topo"])
        .current_dir(&root)
        .status();
    // Without cargo the program that is there is taken.
    if let Ok(built) = built {
        ensure!(built.success(), "topo does not build");
    }
    let status = Command::new(&program)
        .arg("gpu-test")
        .args(&arguments.rest)
        .status()
        .with_context(|| format!("starting {}", program.display()))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
