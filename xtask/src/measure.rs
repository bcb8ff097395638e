//! `cargo xtask measure -- COMMAND`: how long a process takes, and how much memory at most.
//!
//! A process of its own, since the system only tells of all finished children together.

use std::ffi::OsString;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};

#[derive(clap::Args)]
pub struct Arguments {
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// What a process took.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// From start to end, s.
    pub seconds: f64,
    /// Most memory at a time, MB.
    pub megabytes: f64,
}

/// Runs the command, whose output goes nowhere, and prints seconds and megabytes.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let (program, rest) = arguments.command.split_first().context("no command")?;
    let start = Instant::now();
    let status = Command::new(program)
        .args(rest)
        .stdout(Stdio::null())
        .status()
        .with_context(|| format!("running {}", program.to_string_lossy()))?;
    let seconds = start.elapsed().as_secs_f64();
    ensure!(
        status.success(),
        "{} failed: {status}",
        program.to_string_lossy()
    );
    // Linux tells kilobytes.
    let kilobytes = getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss();
    println!("{seconds} {}", kilobytes as f64 / 1024.0);
    Ok(ExitCode::SUCCESS)
}

/// Measures a command with a process of this program between. The best of several runs.
///
/// # Errors
/// The command fails.
pub fn best_of(runs: u32, command: &[OsString]) -> Result<Measured> {
    let mut best: Option<Measured> = None;
    for _ in 0..runs.max(1) {
        let output = Command::new(std::env::current_exe()?)
            .args(["measure", "--"])
            .args(command)
            .stderr(Stdio::inherit())
            .output()?;
        ensure!(output.status.success(), "the measured command failed");
        let text = String::from_utf8_lossy(&output.stdout);
        let mut numbers = text.split_whitespace().map(str::parse::<f64>);
        let (Some(Ok(seconds)), Some(Ok(megabytes))) = (numbers.next(), numbers.next()) else {
            anyhow::bail!("expected seconds and megabytes, found {text:?}");
        };
        if best.is_none_or(|best| seconds < best.seconds) {
            best = Some(Measured { seconds, megabytes });
        }
    }
    best.context("nothing was measured")
}
