//! The arguments of `topo show --rank`.

use std::path::PathBuf;

use answers::values::within;
use clap::Args;

use super::compare::FormArguments;

pub(crate) const RANK_EXAMPLES: &str = "\
Examples:
  topo plan topology.xml --hosts 16384 -o plan.json
  topo show plan.json --rank 77777
  topo show plan.json --rank 0 --json          for other tools

Only this rank is computed, so a large job takes no longer than a small one.";

#[derive(Debug, Args)]
pub(crate) struct RankArguments {
    /// Plan, as topo plan -o writes it, or - for standard input
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,
    /// The rank
    #[arg(short, long, value_name = "R", value_parser = within::<u32>(0..=u64::from(u32::MAX)))]
    pub rank: u32,
    #[command(flatten)]
    pub form: FormArguments,
}
