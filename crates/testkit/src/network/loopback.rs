//! A net plug-in that connects ranks over the loopback interface, compiled for one version of the
//! ABI.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The plug-in's source.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/loopback/loopback.c");

/// The C compiler: `CC`, or `cc`.
pub fn compiler() -> String {
    std::env::var("CC").unwrap_or_else(|_| "cc".to_owned())
}

/// Whether there is a C compiler.
pub fn can_compile() -> bool {
    let version = Command::new(compiler()).arg("--version").output();
    version.is_ok_and(|it| it.status.success())
}

/// Compiles the plug-in for a version of the ABI as `to`. The head of the source lists `settings`,
/// as `NAME=VALUE;…`; `more` are compiler options.
///
/// # Errors
/// The compiler cannot be started or fails.
pub fn compile(version: u32, settings: &str, more: &[&str], to: &Path) -> Result<PathBuf> {
    let output = Command::new(compiler())
        .args(["-O1", "-g", "-shared", "-fPIC", "-Wall", "-Werror"])
        .args(["-Wno-unused-function", "-Wno-unused-variable"])
        .arg(format!("-DVERSION={version}"))
        .arg(format!("-DSETTINGS=\"{settings}\""))
        .args(more)
        .arg("-o")
        .arg(to)
        .arg(SOURCE)
        .output()
        .context("the C compiler does not run")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(to.to_owned())
}
