//! `cargo xtask torch-peers`: collectives of torch on topo beside Gloo.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use clap::Args;

use xtask::workspace::{cargo, exit, repository, target};

#[derive(Args)]
pub struct Arguments {
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
    /// Python with torch; without it $TOPO_TORCH_PYTHON, or the fetched one
    #[arg(long)]
    python: Option<PathBuf>,
    /// overheads, all_reduce, all_gather, reduce_scatter; none: all
    operations: Vec<String>,
}

/// Builds the package's library and measures.
///
/// # Errors
/// There is no torch, or a rank fails.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let named = arguments.python.clone();
    let named = named.or_else(|| std::env::var_os("TOPO_TORCH_PYTHON").map(PathBuf::from));
    let python = named.unwrap_or_else(|| target().join("torch/bin/python"));
    ensure!(
        python.exists(),
        "{} does not exist; run cargo xtask fetch torch, or name a Python with --python",
        python.display()
    );
    let mut build = cargo();
    build.args([
        "build",
        "--quiet",
        "--locked",
        "-p",
        "python",
        "--profile",
        "library",
    ]);
    ensure!(build.status()?.success(), "the package does not build");
    let folder = tempfile::tempdir()?;
    package(folder.path()).context("the package")?;
    let mut passed = true;
    for ranks in &arguments.ranks {
        passed &= measure(arguments, &python, folder.path(), *ranks)?;
    }
    Ok(exit(passed))
}

/// The package with the library that was built.
fn package(folder: &Path) -> Result<()> {
    let package = folder.join("toporing");
    fs::create_dir(&package)?;
    let sources = repository()
        .canonicalize()?
        .join("crates/python/python/toporing");
    for entry in fs::read_dir(sources)? {
        let entry = entry?;
        symlink(entry.path(), package.join(entry.file_name()))?;
    }
    let library = target().canonicalize()?.join("library/lib_native.so");
    symlink(library, package.join("_native.abi3.so"))?;
    Ok(())
}

fn measure(arguments: &Arguments, python: &Path, folder: &Path, ranks: u32) -> Result<bool> {
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut started = Vec::new();
    for rank in 0..ranks {
        let mut command = Command::new(python);
        command.args(["-W", "ignore"]);
        command.arg(repository().join("crates/python/benches/peers.py"));
        command
            .arg(arguments.rounds.to_string())
            .arg(arguments.seconds.to_string());
        command.args(&arguments.operations);
        command
            .env("PYTHONPATH", folder)
            .env("PYTHONDONTWRITEBYTECODE", "1");
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
