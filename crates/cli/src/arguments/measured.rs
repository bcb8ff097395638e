//! The option that gives measured links.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

/// Measurements of the machine's links.
#[derive(Debug, Default, Args)]
pub(crate) struct MeasuredArguments {
    /// Judge by links as bandwidths between the machine's GPUs show them: output of nvbandwidth
    /// (text or JSON) or p2pBandwidthLatencyTest, or a page with such tables. NCCL's own decisions
    /// stay
    #[arg(long, value_name = "FILE")]
    pub measured: Option<PathBuf>,
}

impl MeasuredArguments {
    /// Refuses measurements beside a plan, which does not hold every link of its machines.
    pub(crate) fn refuse_beside_plan(&self, plan: &str) -> Result<()> {
        match self.measured {
            Some(_) => bail!(
                "{plan} is a plan, which does not hold every link of its machines; expected topology files with --measured"
            ),
            None => Ok(()),
        }
    }
}
