//! The Python package beside torch's own backends: speed, steps, and torch's own tests.

pub(crate) mod peers;
pub(crate) mod steps;
pub(crate) mod suite;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use tempfile::TempDir;
use xtask::workspace::{cargo, repository, target};

/// The modules with which torch runs, and that with which torch's own tests compare.
pub(crate) const MODULES: [&str; 3] = ["torch", "numpy", "expecttest"];

/// The Python that has torch.
#[derive(Args)]
struct Python {
    /// Python with torch; without it $TOPO_TORCH_PYTHON, or the fetched one
    #[arg(long)]
    python: Option<PathBuf>,
}

impl Python {
    /// Its program, which has modules.
    ///
    /// # Errors
    /// It does not exist, or lacks a module.
    fn path(&self, modules: &[&str]) -> Result<PathBuf> {
        let named = self.python.clone();
        let named = named.or_else(|| std::env::var_os("TOPO_TORCH_PYTHON").map(PathBuf::from));
        let python = named.unwrap_or_else(|| target().join("torch/bin/python"));
        ensure!(
            python.exists(),
            "{} does not exist; run cargo xtask fetch torch, or name a Python with --python",
            python.display()
        );
        let lacking = lacking(&python, modules)?;
        ensure!(
            lacking.is_empty(),
            "{} has no module {lacking}; run cargo xtask fetch torch, or install it there with pip",
            python.display()
        );
        Ok(python)
    }
}

/// The modules that a Python lacks, in words; nothing if it has all.
///
/// # Errors
/// It cannot be started.
pub(crate) fn lacking(python: &Path, modules: &[&str]) -> Result<String> {
    // Torch takes seconds to import.
    let script = "import importlib.util as it, sys\n\
                  print(', '.join(name for name in sys.argv[1:] if not it.find_spec(name)))";
    let mut command = Command::new(python);
    let said = command.args(["-c", script]).args(modules).output();
    let said = said.with_context(|| format!("cannot start {}", python.display()))?;
    ensure!(said.status.success(), "{} does not run", python.display());
    Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}

/// A folder with the package, whose library it builds in a profile of cargo.
struct Package(TempDir);

impl Package {
    /// Builds it.
    ///
    /// # Errors
    /// The library does not build, or the folder cannot be written.
    fn build(profile: &str) -> Result<Self> {
        let mut build = cargo();
        build.args(["build", "--quiet", "--locked", "-p", "python"]);
        build.args(["--profile", profile]);
        ensure!(build.status()?.success(), "the package does not build");
        Self::built(profile)
    }

    /// Takes what was built.
    ///
    /// # Errors
    /// There is no library, or the folder cannot be written.
    fn built(profile: &str) -> Result<Self> {
        // Cargo names the folder of `dev` otherwise.
        let folder = if profile == "dev" { "debug" } else { profile };
        let library = target().join(folder).join("lib_native.so");
        let place = tempfile::tempdir()?;
        fill(place.path(), &library).context("the package")?;
        Ok(Self(place))
    }

    /// A program of the crate that sees the package.
    fn command(&self, python: &Path, program: &str) -> Command {
        let mut command = Command::new(python);
        command.args(["-W", "ignore"]);
        command.arg(repository().join("crates/python").join(program));
        command
            .env("PYTHONPATH", self.0.path())
            .env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }
}

/// Links the package's sources and its library into a folder.
fn fill(folder: &Path, library: &Path) -> Result<()> {
    let package = folder.join("toporing");
    fs::create_dir(&package)?;
    let sources = repository()
        .canonicalize()?
        .join("crates/python/python/toporing");
    for entry in fs::read_dir(sources)? {
        let entry = entry?;
        symlink(entry.path(), package.join(entry.file_name()))?;
    }
    symlink(library.canonicalize()?, package.join("_native.abi3.so"))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_module_is_named() {
        match lacking(Path::new("python3"), &["json", "no_such_module"]) {
            Ok(named) => assert_eq!(named, "no_such_module"),
            Err(why) => println!("not run: {why:#}"),
        }
    }
}
