//! `cargo xtask probing`: the time of `topo probe` as a whole process, beside hwloc's
//! `lstopo-no-graphics`.
//!
//! Fake machines are on disk, and the median of many runs counts. Both programs read this machine
//! and the trees that `--tree` names.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use testkit::{FakeMachine, Machine};

use crate::whole::measure::{self, Table, cell, command};

/// Machines to probe, most with eight GPUs and eight NICs.
const MACHINES: [&str; 6] = [
    "dgx-a100",
    "dgx-h100",
    "dgx-b200",
    "dgx-2",
    "gb200-nvl72-tray",
    "pcie-8gpu-broadcom",
];

#[derive(clap::Args)]
pub(crate) struct Arguments {
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
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let topo = measure::topo(arguments.topo.as_deref())?;
    let heads = [
        "median ms of a process",
        "files",
        "kB",
        "topo probe",
        "lstopo",
    ];
    let (table, head) = Table::new(24, &heads);
    println!("{head}");
    for name in MACHINES {
        let machine = Machine::named(name)?;
        let folder = tempfile::tempdir()?;
        FakeMachine::of(&machine.document()?)?.write(folder.path())?;
        let (files, bytes) = size(folder.path())?;
        let ours = command(&topo, &["probe", "--from"], Some(folder.path()));
        let (files, kilobytes) = (files.to_string(), (bytes / 1000).to_string());
        // hwloc needs files that fake machines lack.
        let cells = [name, files.as_str(), kilobytes.as_str()];
        row(&table, cells, &ours, None, arguments.runs)?;
    }
    for tree in &arguments.tree {
        let name = tree.file_name().unwrap_or(tree.as_os_str());
        let ours = command(&topo, &["probe", "--sysfs-root"], Some(tree));
        let theirs = lstopo(&["--if", "fsroot", "--input"], Some(tree));
        let cells = [&*name.to_string_lossy(), "–", "–"];
        row(&table, cells, &ours, Some(&theirs), arguments.runs)?;
    }
    let ours = command(&topo, &["probe"], None);
    let theirs = lstopo(&[], None);
    let cells = ["this machine", "–", "–"];
    row(&table, cells, &ours, Some(&theirs), arguments.runs)?;
    Ok(ExitCode::SUCCESS)
}

fn lstopo(arguments: &[&str], folder: Option<&Path>) -> Vec<OsString> {
    let all = [&["--of", "xml"], arguments].concat();
    command(Path::new("lstopo-no-graphics"), &all, folder)
}

/// Runs both programs in turn, so that other load affects both alike.
fn row(
    table: &Table,
    [name, files, kilobytes]: [&str; 3],
    ours: &[OsString],
    theirs: Option<&[OsString]>,
    runs: usize,
) -> Result<()> {
    let (mut own, mut other) = (Vec::new(), Vec::new());
    let mut missing = None;
    for _ in 0..runs.max(1) {
        own.push(measure::once(ours)?.seconds * 1e3);
        if let (Some(theirs), None) = (theirs, &missing) {
            match measure::once(theirs) {
                Ok(measured) => other.push(measured.seconds * 1e3),
                Err(error) => missing = Some(format!("{error:#}")),
            }
        }
    }
    let theirs = match missing {
        Some(_) => "not run".to_owned(),
        None => cell(measure::median(other), 1),
    };
    let own = cell(measure::median(own), 1);
    println!("{}", table.row(&[name, files, kilobytes, &own, &theirs]));
    if let Some(why) = missing {
        println!("    lstopo-no-graphics was not run: {why}");
    }
    Ok(())
}

/// Number of files below a folder, and their bytes.
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
