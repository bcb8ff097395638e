//! `cargo xtask scale`: what many ranks cost: planning, running, and simulated.

mod planning;
mod running;
mod simulated;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The topology file of one host
    #[arg(required_unless_present = "run")]
    topology: Option<PathBuf>,
    /// Numbers of hosts, one row each
    #[arg(long, value_delimiter = ',', default_values_t = [128, 1024, 8192, 16_384])]
    hosts: Vec<u32>,
    /// Runs of each process; the fastest counts
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Time the phases of planning inside this process instead
    #[arg(long)]
    phases: bool,
    /// With --phases: place this second machine after each of the first
    #[arg(long, requires = "phases")]
    alternate: Option<PathBuf>,
    /// Simulate all-reduces of these jobs instead of timing how they are planned
    #[arg(long, conflicts_with = "phases")]
    simulate: bool,
    /// Run all-reduces here instead, without a topology
    #[arg(long, conflicts_with_all = ["topology", "phases", "simulate"])]
    run: bool,
    /// With --run: numbers of ranks, one row each
    #[arg(long, value_delimiter = ',', requires = "run",
          default_values_t = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1000])]
    ranks: Vec<u32>,
    /// With --run: a process for each rank; otherwise ranks are threads of one
    #[arg(long, requires = "run")]
    processes: bool,
    /// The topo program; built if not given
    #[arg(long)]
    topo: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.run {
        running::table(arguments)?;
        return Ok(ExitCode::SUCCESS);
    }
    let topology = arguments.topology.as_deref().context("no topology file")?;
    if arguments.simulate {
        simulated::table(arguments, topology)?;
    } else if arguments.phases {
        for hosts in &arguments.hosts {
            planning::phases(arguments, topology, *hosts)?;
        }
    } else {
        planning::table(arguments, topology)?;
    }
    Ok(ExitCode::SUCCESS)
}
