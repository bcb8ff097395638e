//! `cargo xtask probing`: how long `topo probe` takes as a whole process, beside `lstopo-no-graphics` of hwloc.
//!
//! Recorded machines lie on disk; the median of many runs counts. Both read this machine, and trees that hold what hwloc
//! needs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use machines::{FakeMachine, Machine};

/// Machines of eight GPUs and eight NICs, and others.
const MACHINES: [&str; 6] = [
    "dgx-a100",
    "dgx-h100",
    "dgx-b200",
    "dgx-2",
    "gb200-nvl72-tray",
    "pcie-8gpu-broadcom",
];

#[derive(clap::Args)]
pub struct Arguments {
    /// The topo program; built with optimization if not given
    #[arg(long)]
    topo: Option<PathBuf>,
    /// Also these trees, with sys and proc in them
    #[arg(long, value_name = "DIR")]
    tree: Vec<PathBuf>,
    /// Runs of each; the median counts
    #[arg(long, default_value_t = 31)]
    runs: usize,
}

/// Measures and prints a table.
///
/// # Errors
/// A program cannot be built or run.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let topo = match &arguments.topo {
        Some(path) => path.clone(),
        None => build()?,
    };
    println!(
        "{:34} {:>5} {:>6} {:>10} {:>10}",
        "median ms of a whole process", "files", "kB", "topo probe", "lstopo"
    );
    for name in MACHINES {
        let machine = Machine::named(name)?;
        let folder = tempfile::tempdir()?;
        FakeMachine::of(&machine.document()?)?.write(folder.path())?;
        let (files, bytes) = size(folder.path())?;
        let ours = command(&topo, &["probe", "--from"], Some(folder.path()));
        let size = format!("{files:5} {:6.0}", bytes as f64 / 1000.0);
        // hwloc asks for files that NCCL and topo do not look at.
        row(name, &size, &ours, None, arguments.runs)?;
    }
    for tree in &arguments.tree {
        let name = tree.file_name().unwrap_or(tree.as_os_str());
        let ours = command(&topo, &["probe", "--sysfs-root"], Some(tree));
        let theirs = lstopo(&["--if", "fsroot", "--input"], Some(tree));
        let size = format!("{:>5} {:>6}", "–", "–");
        row(
            &name.to_string_lossy(),
            &size,
            &ours,
            Some(&theirs),
            arguments.runs,
        )?;
    }
    let ours = command(&topo, &["probe"], None);
    let live = format!("{:>5} {:>6}", "–", "–");
    row(
        "this machine",
        &live,
        &ours,
        Some(&lstopo(&[], None)),
        arguments.runs,
    )?;
    Ok(ExitCode::SUCCESS)
}

fn lstopo(arguments: &[&str], folder: Option<&Path>) -> Vec<OsString> {
    let all = [&["--of", "xml"], arguments].concat();
    command(Path::new("lstopo-no-graphics"), &all, folder)
}

fn command(program: &Path, arguments: &[&str], folder: Option<&Path>) -> Vec<OsString> {
    let mut command: Vec<OsString> = vec![program.into()];
    command.extend(arguments.iter().map(OsString::from));
    command.extend(folder.map(OsString::from));
    command
}

/// Both programs by turns, so that what else the computer does meets both alike.
fn row(
    name: &str,
    size: &str,
    ours: &[OsString],
    theirs: Option<&[OsString]>,
    runs: usize,
) -> Result<()> {
    let (mut own, mut other) = (Vec::new(), Vec::new());
    let mut missing = None;
    for _ in 0..runs.max(1) {
        own.push(once(ours)?);
        if let (Some(theirs), None) = (theirs, &missing) {
            match once(theirs) {
                Ok(milliseconds) => other.push(milliseconds),
                Err(error) => missing = Some(format!("{error:#}")),
            }
        }
    }
    let theirs = match (theirs, &missing) {
        (None, _) => format!("{:>10}", "–"),
        (_, None) => format!("{:10.1}", median(&mut other)),
        (_, Some(_)) => format!("{:>10}", "not run"),
    };
    println!("{name:34} {size} {:10.1} {theirs}", median(&mut own));
    if let Some(why) = missing {
        println!("    lstopo-no-graphics was not run: {why}");
    }
    Ok(())
}

/// Milliseconds of one run.
fn once(command: &[OsString]) -> Result<f64> {
    let (program, rest) = command.split_first().context("no command")?;
    let start = Instant::now();
    let status = Command::new(program)
        .args(rest)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .with_context(|| format!("starting {}", program.to_string_lossy()))?;
    let seconds = start.elapsed().as_secs_f64();
    ensure!(status.success(), "it ended with {status}");
    Ok(seconds * 1e3)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Files below a folder, and their bytes.
fn size(folder: &Path) -> Result<(usize, u64)> {
    let (mut files, mut bytes) = (0, 0);
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let found = entry.metadata()?;
        if found.is_dir() {
            let (more, larger) = size(&entry.path())?;
            files += more;
            bytes += larger;
        } else {
            files += 1;
            bytes += found.len();
        }
    }
    Ok((files, bytes))
}

fn build() -> Result<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let status = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
        .args(["build", "--release", "--package", "topo"])
        .current_dir(&root)
        .status()
        .context("starting cargo")?;
    if !status.success() {
        bail!("topo cannot be built");
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), Into::into);
    Ok(target.join("release/topo"))
}
