//! The command that simulates collectives.

use std::path::PathBuf;

use clap::Args;
use program::{Collective, ElementType, Protocol, Schedule, Transfer};

use super::compare::FormArguments;
use super::measured::MeasuredArguments;
use super::nccl_tests::one;
use super::{JobArguments, schedule, transfer};
use crate::sizes;

pub(crate) const SIMULATE_EXAMPLES: &str = "\
Examples:
  topo simulate plan.json --collective all-reduce --size 1G
  topo simulate topologies/dgx-h100 --hosts 2048 --collective all-reduce --size 1G --algorithm tree
  topo simulate plan.json --collective all-reduce --size 64M --fabric fabric.toml
  topo simulate topology.xml --collective all-reduce --size 64M --measured nvbandwidth.txt
                                               links as they were measured
  topo simulate plan.json --collective all-gather --size 256M --trace trace.json
                                               a trace for https://ui.perfetto.dev
  topo simulate --ranks 8 --fabric fabric.toml --collective all-reduce --size 16M
                                               processors with one port each, without a plan
  topo simulate plan.json --collective all-reduce --size 1G --json

The programs are those that topo run runs. A fabric file (TOML) says what is assumed of the network:
rates, leaf and spine switches, latencies, late ranks and failed links. docs/simulation.md
explains its keys and the rules of the clock. The same job always gives the same numbers.
Exit status: 0 when the job was simulated, 2 when it cannot be or the command line is wrong.";

#[derive(Debug, Args)]
#[command(mut_arg("files", |files| files.required(false).required_unless_present("ranks").conflicts_with("ranks")))]
pub(crate) struct SimulateArguments {
    #[command(flatten)]
    pub job: JobArguments,
    /// Without a file: N ranks on hosts with one port each, which --fabric describes
    #[arg(long, value_name = "N", requires = "fabric", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub ranks: Option<u32>,
    /// What is assumed of the network (TOML)
    #[arg(short, long, value_name = "FILE")]
    pub fabric: Option<PathBuf>,
    #[command(flatten)]
    pub measured: MeasuredArguments,
    #[command(flatten)]
    pub run: SimulatedRun,
    /// Links that the page shows, the busiest first
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub links: usize,
    #[command(flatten)]
    pub form: FormArguments,
}

/// A collective to run on the virtual clock.
#[derive(Debug, Args)]
pub(crate) struct SimulatedRun {
    /// The collective
    #[arg(long, value_name = "NAME", value_parser = sizes::collective)]
    pub collective: Collective,
    /// Size of the message, bytes; of the larger side where a collective gathers or scatters
    #[arg(short, long, value_name = "SIZE", value_parser = sizes::size)]
    pub size: u64,
    /// The algorithm [default: what NCCL takes, ring or tree; without a plan ring]
    #[arg(long, value_name = "NAME", value_parser = schedule())]
    pub algorithm: Option<Schedule>,
    /// The protocol: LL, LL128, Simple [default: what NCCL takes; without a plan Simple]
    #[arg(long, value_name = "NAME")]
    pub protocol: Option<Protocol>,
    /// How a mesh moves data [default: fifo; for nvls direct]
    #[arg(long, value_name = "NAME", value_parser = transfer())]
    pub transfer: Option<Transfer>,
    /// Use at most N channels [default: as many as NCCL; without a plan 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub channels: Option<u16>,
    /// Type of the elements
    #[arg(short = 'd', long = "type", value_name = "TYPE", default_value = "f32", value_parser = one::<ElementType>)]
    pub element: ElementType,
    /// The root
    #[arg(short, long, value_name = "RANK", default_value_t = 0)]
    pub root: u32,
    /// Run every rank, also those that do the same as others
    #[arg(long)]
    pub every_rank: bool,
    /// Write a trace for Perfetto or Chrome: every step and network transfer
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}
