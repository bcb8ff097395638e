//! The command that simulates collectives.

use std::path::PathBuf;

use answers::simulate::SimulateQuestion;
use answers::values::within;
use clap::{Args, ValueEnum};
use program::size;

use super::compare::FormArguments;
use super::measured::MeasuredArguments;
use super::{JobArguments, schedule, transfer};

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
  topo simulate dgx-h100 --hosts 8 --tokens 4096 --experts 256 --top-k 8 --token-bytes 14336
                                               tokens to experts and back, by two schedules

The programs are those that topo run runs. A fabric file (TOML) says what is assumed of the network: \
rates, leaf and spine switches, latencies, late ranks and failed links. docs/simulation.md \
explains its keys and the rules of the clock. The same job always gives the same numbers.
Exit status: 0 when the job was simulated, 2 when it cannot be or the command line is wrong.";

#[derive(Debug, Args)]
#[command(
    mut_arg("files", |it| it.required(false).required_unless_present("ranks").conflicts_with("ranks")),
    mut_arg("collective", |it| it.required(false).required_unless_present("top_k")),
    mut_arg("size", |it| it.required(false).required_unless_present("top_k")),
    mut_arg("algorithm", |it| it.value_parser(schedule())),
    mut_arg("transfer", |it| it.value_parser(transfer())),
)]
pub(crate) struct SimulateArguments {
    #[command(flatten)]
    pub job: JobArguments,
    /// Without a file: N ranks on hosts with one port each, which --fabric describes
    #[arg(long, value_name = "N", requires = "fabric", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub ranks: Option<u32>,
    /// What is assumed of the network: a fabric file (TOML), or switches as for --network-only
    #[arg(short, long, value_name = "FILE")]
    pub fabric: Option<PathBuf>,
    #[command(flatten)]
    pub measured: MeasuredArguments,
    #[command(flatten)]
    pub question: Option<SimulateQuestion>,
    /// Write a trace for Perfetto or Chrome: every step and network transfer
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Links that the page shows, the busiest first
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub links: usize,
    #[command(flatten)]
    pub form: FormArguments,
    #[command(flatten)]
    pub tokens: TokenArguments,
}

/// Tokens that go to experts, instead of a collective.
#[derive(Debug, Args)]
#[command(next_help_heading = "Tokens to experts, instead of a collective")]
pub(crate) struct TokenArguments {
    /// Experts of each token: exchanges tokens instead of running a collective
    #[arg(
        long,
        value_name = "K",
        requires = "token_bytes",
        conflicts_with_all = ["collective", "size", "ranks", "algorithm", "protocol", "transfer", "channels",
                              "element", "root", "every_rank", "trace"],
        value_parser = within::<u32>(1..=1 << 24)
    )]
    pub top_k: Option<u32>,
    /// Bytes of a token: hidden size times bytes of an element
    #[arg(long, value_name = "SIZE", requires = "top_k", value_parser = size::parse)]
    pub token_bytes: Option<u64>,
    /// Tokens of each rank, which need all experts equally often
    #[arg(
        long,
        value_name = "N",
        requires = "top_k",
        requires = "experts",
        required_unless_present_any = ["collective", "routing"],
        conflicts_with = "routing",
        value_parser = within::<u32>(1..=1 << 24)
    )]
    pub tokens: Option<u32>,
    /// Experts of all ranks together
    #[arg(long, value_name = "N", requires = "tokens", value_parser = within::<u32>(1..=1 << 24))]
    pub experts: Option<u32>,
    /// Tokens by rank instead: a line for each rank with the copies of its tokens for each rank
    #[arg(long, value_name = "FILE", requires = "top_k")]
    pub routing: Option<PathBuf>,
    /// One schedule only: all-to-all (NCCL's) or two-stage (DeepEP's, NCCL EP's)
    #[arg(long, value_enum, value_name = "NAME", requires = "top_k")]
    pub schedule: Option<TokenSchedule>,
}

/// How tokens move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TokenSchedule {
    /// Each copy to the rank of its expert
    AllToAll,
    /// Once to each NVLink domain, and on over NVLink
    TwoStage,
}
