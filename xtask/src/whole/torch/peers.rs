//! `cargo xtask torch-peers`: collectives of torch on topo beside Gloo.

use std::net::TcpListener;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use xtask::workspace::exit;

use super::{MODULES, Package, Python};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Ranks, each measured in turn
    #[arg(long, value_delimiter = ',', default_value = "2,4")]
    ranks: Vec<u32>,
    /// Rounds in which each library runs a batch
    #[arg(long, default_value_t = 9)]
    rounds: u32,
    /// Seconds of a batch
    #[arg(long, default_value_t = 0.1)]
    seconds: f64,
    /// Threads that torch computes with, for both libraries
    #[arg(long, default_value_t = 1)]
    threads: u32,
    #[command(flatten)]
    python: Python,
    /// overheads, all_reduce, all_gather, reduce_scatter; none: all
    operations: Vec<String>,
}

/// Builds the package's library and measures.
///
/// # Errors
/// There is no torch, or a rank fails.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let python = arguments.python.path(&MODULES[..2])?;
    let package = Package::build("library")?;
    let mut passed = true;
    for ranks in &arguments.ranks {
        passed &= measure(arguments, &python, &package, *ranks)?;
    }
    Ok(exit(passed))
}

fn measure(arguments: &Arguments, python: &Path, package: &Package, ranks: u32) -> Result<bool> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut started = Vec::new();
    for rank in 0..ranks {
        let mut command = package.command(python, "benches/peers.py");
        command
            .arg(arguments.rounds.to_string())
            .arg(arguments.seconds.to_string());
        command.args(&arguments.operations);
        command.env("OMP_NUM_THREADS", arguments.threads.to_string());
        command
            .env("RANK", rank.to_string())
            .env("LOCAL_RANK", rank.to_string());
        command.env("WORLD_SIZE", ranks.to_string());
        command
            .env("MASTER_ADDR", "127.0.0.1")
            .env("MASTER_PORT", port.to_string());
        started.push(
            command
                .spawn()
                .with_context(|| python.display().to_string())?,
        );
    }
    let mut passed = true;
    for mut child in started {
        passed &= child.wait()?.success();
    }
    Ok(passed)
}
