//! `cargo xtask sanitize`: the kernels on the emulator under AddressSanitizer or ThreadSanitizer.
//!
//! For AddressSanitizer a feature of the emulator compiles only the kernels again; everything else
//! is shared with the tests.
//!
//! For ThreadSanitizer everything must report to one runtime, because otherwise locks of the Rust
//! side look like races of the kernels. A nightly toolchain compiles the Rust side with its
//! standard library, and the C++ side is linked to that runtime.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::workspace::{cargo, exit, repository, target, triple};

/// Exit status of a sanitizer's finding, unlike that of a failed test.
const FOUND: i32 = 66;

/// The needs of ThreadSanitizer.
const NO_NIGHTLY: &str = "it needs `rustup toolchain install nightly --component rust-src`";

/// Arguments of `cargo xtask sanitize`.
#[derive(Args)]
pub struct Arguments {
    /// The sanitizer
    #[arg(value_enum, default_value_t)]
    sanitizer: Sanitizer,
}

/// A sanitizer of the compilers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Sanitizer {
    /// Accesses outside of allocated memory
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
    if let Some(why) = lacking(sanitizer) {
        println!("{}: not run: {why}", sanitizer.name());
        return Ok(ExitCode::from(2));
    }
    let mut all_well = true;
    for finding in check(sanitizer)? {
        let well = if finding.well { "yes" } else { "NO" };
        println!("{}: {}: {well}", sanitizer.name(), finding.what);
        if !finding.well {
            println!("{}", finding.said);
        }
        all_well &= finding.well;
    }
    Ok(exit(all_well))
}

/// The result of some tests.
pub struct Finding {
    /// The expectation.
    pub what: &'static str,
    /// Whether it happened.
    pub well: bool,
    /// The last lines of the output.
    pub said: String,
}

/// Why a sanitizer cannot run on this machine.
pub fn lacking(sanitizer: Sanitizer) -> Option<&'static str> {
    match sanitizer {
        Sanitizer::Address => address_library().is_none().then_some(
            "the C compiler has no libasan.so; install GCC and its sanitizers, or name it by CC",
        ),
        Sanitizer::Thread => (!has_sources()).then_some(NO_NIGHTLY),
    }
}

/// GCC's runtime of AddressSanitizer.
fn address_library() -> Option<String> {
    let output = Command::new(std::env::var_os("CC").unwrap_or("cc".into()))
        .arg("-print-file-name=libasan.so")
        .output();
    let path = String::from_utf8_lossy(&output.ok()?.stdout)
        .trim()
        .to_owned();
    Path::new(&path).is_absolute().then_some(path)
}

/// Runs the emulator's tests with a sanitizer, and a planted bug that it must find.
///
/// # Errors
/// They cannot be built or started.
pub fn check(sanitizer: Sanitizer) -> Result<Vec<Finding>> {
    // Deep tests, too.
    let mut wanted = vec!["--include-ignored", "--skip", "a_weak_fence"];
    wanted.extend(["--skip", "planted", "--skip", "deadlock"]);
    if sanitizer == Sanitizer::Thread {
        // Weak memory hides stores from the sanitizer, and the other bugs are not races.
        wanted.extend([
            "--skip",
            "weak_memory",
            "--skip",
            "not_enough",
            "--skip",
            "not_cleaned",
        ]);
    }
    let program = build(sanitizer)?;
    let ran = test(sanitizer, &program, &wanted)?;
    let mut findings = vec![Finding {
        what: "the kernels without bugs",
        well: ran.status.success(),
        said: tail(&ran),
    }];
    if sanitizer == Sanitizer::Thread {
        // A fence that is too weak must be found.
        let weak = ["--ignored", "--exact", "bugs::a_weak_fence"];
        let ran = test(sanitizer, &program, &weak)?;
        let text = String::from_utf8_lossy(&ran.stderr);
        findings.push(Finding {
            what: "a weak fence is found",
            well: ran.status.code() != Some(0) && text.contains("data race"),
            said: tail(&ran),
        });
    }
    Ok(findings)
}

fn tail(ran: &Output) -> String {
    let text = String::from_utf8_lossy(&ran.stdout) + String::from_utf8_lossy(&ran.stderr);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}

/// Runs some of the emulator's tests.
fn test(sanitizer: Sanitizer, program: &Path, wanted: &[&str]) -> Result<Output> {
    let mut command = Command::new(program);
    command
        .args(wanted)
        .current_dir(repository().join("crates/kernel-emulator"))
        .env("ASAN_OPTIONS", format!("detect_leaks=0:exitcode={FOUND}"))
        .env("TSAN_OPTIONS", format!("halt_on_error=1:exitcode={FOUND}"));
    if sanitizer == Sanitizer::Address {
        // It must be loaded before all other libraries.
        command.env("LD_PRELOAD", address_library().unwrap_or_default());
    }
    command.output().context("running the tests")
}

/// The emulator's tests, built with a sanitizer.
fn build(sanitizer: Sanitizer) -> Result<PathBuf> {
    let name = sanitizer.name();
    let feature = format!("kernel-emulator/{name}-sanitizer");
    let mut command = match sanitizer {
        Sanitizer::Address => {
            let mut command = cargo();
            // With all members and the tests' features, nothing else is compiled again.
            command
                .args(["test", "--workspace", "--features"])
                .arg(format!("emulator,{feature}"));
            command
        }
        Sanitizer::Thread => {
            let mut command = test_with_threads();
            command.args(["--package", "kernel-emulator", "--features", &feature]);
            command
        }
    };
    command
        .args(["--locked", "--test", "matrix", "--no-run"])
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit());
    let output = command.output().context("starting cargo")?;
    ensure!(
        output.status.success(),
        "the emulator does not build with -fsanitize={name}"
    );
    let built = String::from_utf8_lossy(&output.stdout);
    let mut programs = built.lines().filter_map(|line| {
        let artifact: Value = serde_json::from_str(line).ok()?;
        let package = artifact["package_id"].as_str()?;
        let own = package.contains("/kernel-emulator#") && artifact["target"]["name"] == "matrix";
        artifact["executable"]
            .as_str()
            .filter(|_| own)
            .map(PathBuf::from)
    });
    programs
        .next()
        .context("cargo names no program of the emulator's tests")
}

/// `cargo test` of the nightly toolchain, which compiles everything for ThreadSanitizer.
fn test_with_threads() -> Command {
    // This toolchain's cargo would start this toolchain's compiler.
    let mut command = Command::new("rustup");
    command
        .args(["run", "nightly", "cargo", "test", "-Zbuild-std"])
        // With a target named, build scripts are not linked with the sanitizer.
        .args(["--target", &triple()])
        .current_dir(repository())
        .env_remove("RUSTUP_TOOLCHAIN")
        .env("RUSTFLAGS", "-Zsanitizer=thread")
        .env("CARGO_TARGET_DIR", target().join("sanitize/thread"));
    command
}

/// Tests of memory that ranks share, without kernels.
const SHARED: [&[&str]; 2] = [
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

/// `cargo xtask thread-sanitizer`: runs the tests of memory that ranks share under ThreadSanitizer.
///
/// # Errors
/// Nothing can be started.
pub fn run_shared() -> Result<ExitCode> {
    if !has_sources() {
        println!("thread-sanitizer: not run: {NO_NIGHTLY}");
        return Ok(ExitCode::from(2));
    }
    let mut passed = true;
    for tests in SHARED {
        let status = test_with_threads().args(tests).status();
        passed &= status.context("starting rustup")?.success();
    }
    Ok(exit(passed))
}

/// Whether there is a nightly toolchain with the sources of the standard library.
fn has_sources() -> bool {
    let components = Command::new("rustup")
        .args(["+nightly", "component", "list", "--installed"])
        .stderr(Stdio::null())
        .output();
    components.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("rust-src"))
}
