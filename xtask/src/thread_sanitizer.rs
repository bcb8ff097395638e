//! `cargo xtask thread-sanitizer`: the tests of what ranks share, watched by ThreadSanitizer.
//!
//! It needs a nightly toolchain with the sources of the standard library, which is compiled with it: without that, locks
//! and channels of the standard library would look like races.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};

/// What is run: packages and which of their tests.
const RUNS: [&[&str]; 2] = [
    &["--package", "shared-memory", "--tests"],
    &[
        "--package",
        "backend-cpu",
        "--test",
        "communicator",
        "--test",
        "matrix",
    ],
];

/// Runs them.
///
/// # Errors
/// Nothing can be started.
pub fn run() -> Result<ExitCode> {
    if !has_sources() {
        println!(
            "thread-sanitizer: not run: it needs `rustup toolchain install nightly --component rust-src`"
        );
        return Ok(ExitCode::from(2));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), Into::into);
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut well = true;
    for run in RUNS {
        // Cargo of this toolchain would start the compiler of this toolchain.
        let status = Command::new("rustup")
            .args([
                "run",
                "nightly",
                "cargo",
                "test",
                "-Zbuild-std",
                "--target",
                &triple,
            ])
            .args(run)
            .current_dir(&root)
            .env_remove("RUSTUP_TOOLCHAIN")
            .env("RUSTFLAGS", "-Zsanitizer=thread")
            .env("CARGO_TARGET_DIR", target.join("thread-sanitizer"))
            .status()
            .context("starting rustup")?;
        well &= status.success();
    }
    Ok(if well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Whether there is a nightly toolchain with the sources of the standard library.
pub fn has_sources() -> bool {
    let components = Command::new("rustup")
        .args(["+nightly", "component", "list", "--installed"])
        .stderr(Stdio::null())
        .output();
    components.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("rust-src"))
}
