//! `cargo xtask sanitize`: the kernels on the emulator under AddressSanitizer, or under ThreadSanitizer if it is named.
//!
//! For ThreadSanitizer everything must report to one runtime, or locks of the Rust side look like races of the kernels: the
//! Rust side and its standard library are compiled with it by a nightly toolchain, whose runtime the C++ side is linked to.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use crate::thread_sanitizer;

/// What the sanitizers exit with when they found something, unlike a test that failed.
const FOUND: i32 = 66;

/// Arguments of `cargo xtask sanitize`.
#[derive(Args)]
pub struct Arguments {
    /// Which one
    #[arg(value_enum, default_value_t)]
    sanitizer: Sanitizer,
}

/// A sanitizer of clang.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Sanitizer {
    /// Accesses outside of what was allocated
    #[default]
    Address,
    /// Data races
    Thread,
}

impl Sanitizer {
    const fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Thread => "thread",
        }
    }
}

/// Runs the emulator's tests with a sanitizer.
///
/// # Errors
/// Cargo cannot be started.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let sanitizer = arguments.sanitizer;
    let mut wanted = vec!["--skip", "planted", "--skip", "deadlock"];
    if sanitizer == Sanitizer::Thread {
        if !thread_sanitizer::has_sources() {
            println!(
                "thread: not run: it needs `rustup toolchain install nightly --component rust-src`"
            );
            return Ok(ExitCode::from(2));
        }
        // Weak memory keeps what is stored from the sanitizer's eyes, and the other bugs are no races.
        wanted.extend([
            "--skip",
            "weak_memory",
            "--skip",
            "not_enough",
            "--skip",
            "not_cleaned",
        ]);
    }
    let ran = test(sanitizer, &wanted)?;
    let mut all_well = told(sanitizer, "the kernels without bugs", ran.status.success());
    if !all_well {
        println!("{}", tail(&ran));
    }
    if sanitizer == Sanitizer::Thread {
        // The test of the test: a fence that is too weak must be found.
        let ran = test(sanitizer, &["--ignored", "--exact", "bugs::a_weak_fence"])?;
        let text = String::from_utf8_lossy(&ran.stderr);
        let found = ran.status.code() != Some(0) && text.contains("data race");
        all_well &= told(sanitizer, "a weak fence is found", found);
        if !found {
            println!("{}", tail(&ran));
        }
    }
    Ok(if all_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn told(sanitizer: Sanitizer, what: &str, well: bool) -> bool {
    println!(
        "{}: {what}: {}",
        sanitizer.name(),
        if well { "yes" } else { "NO" }
    );
    well
}

fn tail(ran: &Output) -> String {
    let text = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}

/// Builds the emulator's tests with a sanitizer and runs some.
fn test(sanitizer: Sanitizer, wanted: &[&str]) -> Result<Output> {
    let built = cargo(sanitizer)?.arg("--no-run").status();
    let built = built.context("starting cargo")?;
    ensure!(
        built.success(),
        "the emulator does not build with -fsanitize={}",
        sanitizer.name()
    );
    let mut command = cargo(sanitizer)?;
    command
        .arg("--")
        .args(wanted)
        .env("ASAN_OPTIONS", format!("detect_leaks=0:exitcode={FOUND}"))
        .env("TSAN_OPTIONS", format!("halt_on_error=1:exitcode={FOUND}"));
    command.output().context("running the tests")
}

/// Cargo, told to test the emulator with a sanitizer.
fn cargo(sanitizer: Sanitizer) -> Result<Command> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let host = host()?;
    let mut command = match sanitizer {
        Sanitizer::Address => with_gcc(&host)?,
        Sanitizer::Thread => {
            // Cargo of this toolchain would start the compiler of this toolchain.
            let mut command = Command::new("rustup");
            command
                .args(["run", "nightly", "cargo", "test", "-Zbuild-std"])
                .env_remove("RUSTUP_TOOLCHAIN")
                .env("RUSTFLAGS", "-Zsanitizer=thread");
            command
        }
    };
    let name = sanitizer.name();
    command
        .args(["--package", "kernel-emulator", "--test", "matrix"])
        // With a target named, build scripts are not linked with the sanitizer.
        .args(["--target", &host])
        .current_dir(&root)
        .env("TOPO_SANITIZER", name)
        .env("CARGO_TARGET_DIR", target.join("sanitize").join(name));
    Ok(command)
}

/// Cargo of this toolchain, with GCC's runtime of AddressSanitizer.
fn with_gcc(host: &str) -> Result<Command> {
    let library = "libasan.so";
    let preload = Command::new("cc")
        .arg(format!("-print-file-name={library}"))
        .output()
        .context("running cc")?;
    let preload = String::from_utf8_lossy(&preload.stdout).trim().to_owned();
    ensure!(
        Path::new(&preload).is_absolute(),
        "cc has no {library}; install GCC's sanitizers"
    );
    let runner = format!(
        "CARGO_TARGET_{}_RUNNER",
        host.to_uppercase().replace('-', "_")
    );
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command
        .arg("test")
        // The library must be there before all others.
        .env("RUSTFLAGS", format!("-Clink-arg={preload}"))
        .env(runner, format!("env LD_PRELOAD={preload}"));
    Ok(command)
}

/// What this machine's compiler compiles for.
fn host() -> Result<String> {
    let host = Command::new("rustc")
        .arg("-vV")
        .output()
        .context("running rustc")?;
    let host = String::from_utf8_lossy(&host.stdout);
    let host = host.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host
        .context("rustc does not say for what it compiles")?
        .to_owned())
}
