//! PyTorch, for the tests of the Python package.

use std::fs;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use xtask::workspace::target;

/// Makes a virtual environment with torch and numpy in `target/torch`.
///
/// # Errors
/// There is no Python, or pip fails.
pub(super) fn fetch(version: Option<&str>) -> Result<ExitCode> {
    let place = target().join("torch");
    if place.join("bin/python").exists() {
        println!("torch: {} (remove it for another version)", place.display());
        return Ok(ExitCode::SUCCESS);
    }
    let beside = place.with_extension("new");
    let _ = fs::remove_dir_all(&beside);
    run(Command::new("python3").args(["-m", "venv"]).arg(&beside))?;
    let torch = version.map_or_else(|| "torch".to_owned(), |it| format!("torch=={it}"));
    let mut pip = Command::new(beside.join("bin/pip"));
    run(pip.args(["install", "--quiet", &torch, "numpy"]))?;
    fs::rename(&beside, &place)?;
    println!("torch: {}", place.display());
    Ok(ExitCode::SUCCESS)
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status();
    let status = status.with_context(|| format!("cannot start {:?}", command.get_program()))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}
