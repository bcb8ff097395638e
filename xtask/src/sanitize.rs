//! `cargo xtask sanitize`: the kernels on the emulator under AddressSanitizer; under ThreadSanitizer if it is named, which
//! still reports races between launches, for it does not see the locks of the Rust side.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

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

/// Runs the emulator's tests with each sanitizer.
///
/// # Errors
/// Cargo cannot be started.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let sanitizer = arguments.sanitizer;
    let ran = test(sanitizer, &["--skip", "planted", "--skip", "deadlock"])?;
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    let host = Command::new("rustc")
        .arg("-vV")
        .output()
        .context("running rustc")?;
    let host = String::from_utf8_lossy(&host.stdout);
    let host = host.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host
        .context("rustc does not say for what it compiles")?
        .to_owned();
    // The compiler's runtime library of the sanitizer must be there before all others.
    let library = match sanitizer {
        Sanitizer::Address => "libasan.so",
        Sanitizer::Thread => "libtsan.so",
    };
    let sanitizer = sanitizer.name();
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
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let build = |extra: &[&str]| {
        let mut command = Command::new(&cargo);
        command
            .args(["test", "--package", "kernel-emulator", "--test", "matrix"])
            // With a target named, build scripts are not linked with the sanitizer.
            .args(["--target", &host])
            .args(extra)
            .current_dir(&root)
            .env("RUSTFLAGS", format!("-Clink-arg={preload}"))
            .env(&runner, format!("env LD_PRELOAD={preload}"))
            .env("TOPO_SANITIZER", sanitizer)
            .env("CARGO_TARGET_DIR", target.join("sanitize").join(sanitizer));
        command
    };
    let built = build(&["--no-run"]).status().context("starting cargo")?;
    ensure!(
        built.success(),
        "the emulator does not build with -fsanitize={sanitizer}"
    );
    let mut command = build(&["--"]);
    command
        .args(wanted)
        .env("ASAN_OPTIONS", format!("detect_leaks=0:exitcode={FOUND}"))
        .env("TSAN_OPTIONS", format!("halt_on_error=1:exitcode={FOUND}"));
    command.output().context("running the tests")
}
