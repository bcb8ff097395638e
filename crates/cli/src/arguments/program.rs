//! The arguments of `topo show --program`.

use answers::names;
use answers::values::within;
use clap::Args;
use program::{Collective, Schedule, Transfer};

use super::compare::FormArguments;
use super::{JobArguments, schedule, transfer};

pub(crate) const PROGRAM_EXAMPLES: &str = "\
Examples:
  topo show --program plan.json --collective all-reduce --algorithm tree --rank 3
  topo show --program topologies/dgx-h100 --collective all-gather --algorithm ring --channels 1
  topo show --program --ranks 4 --collective all-reduce --algorithm mesh
  topo show --program --ranks 4 --collective all-reduce --algorithm two-phase-mesh --transfer direct
  topo show --program plan.json --collective send-recv --root 2 --to 5 --rank 5
  topo show --program plan.json --collective all-reduce --json

Steps have NCCL's names: recvReduceSend receives from a FIFO, reduces with local \
data, and sends the result.
Exit status: 0 when there is a program, 2 when there is none or the command line is wrong.";

#[derive(Debug, Args)]
#[command(mut_arg("files", |files| files.required(false).required_unless_present("ranks").conflicts_with("ranks")))]
pub(crate) struct ProgramArguments {
    #[command(flatten)]
    pub job: JobArguments,
    /// Without a file: N ranks of a machine without a plan
    #[arg(long, value_name = "N", value_parser = within::<u32>(1..=4096))]
    pub ranks: Option<u32>,
    /// The collective
    #[arg(long, value_parser = names::collective)]
    pub collective: Collective,
    /// The algorithm [default: the first that writes the collective, mostly ring]
    #[arg(long, visible_alias = "schedule", value_parser = schedule())]
    pub algorithm: Option<Schedule>,
    /// How a mesh moves data: through FIFOs, or by reading and writing the peers' buffers
    /// [default: fifo; for nvls direct]
    #[arg(long, value_parser = transfer())]
    pub transfer: Option<Transfer>,
    /// The rank whose program is shown
    #[arg(long, value_name = "RANK", default_value_t = 0, value_parser = within::<u32>(0..=u64::from(u32::MAX)))]
    pub rank: u32,
    /// The root; for send-recv the sender
    #[arg(long, value_name = "RANK", default_value_t = 0, value_parser = within::<u32>(0..=u64::from(u32::MAX)))]
    pub root: u32,
    /// The receiver of send-recv [default: the rank after the sender]
    #[arg(long, value_name = "RANK", value_parser = within::<u32>(0..=u64::from(u32::MAX)))]
    pub to: Option<u32>,
    /// Use at most N channels
    #[arg(long, value_name = "N", value_parser = within::<u32>(1..=256))]
    pub channels: Option<u32>,
    /// Run in place: the output is the input, or a block of it
    #[arg(long)]
    pub in_place: bool,
    #[command(flatten)]
    pub form: FormArguments,
}
