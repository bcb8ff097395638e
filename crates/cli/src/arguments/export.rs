//! The arguments of `topo export`.

use std::path::PathBuf;

use answers::cost::ElementOptions;
use answers::gpus::AskedGpus;
use anyhow::{Result, bail};
use clap::Args;

use super::JobArguments;
use super::compare::FormArguments;
use super::measured::MeasuredArguments;

pub(crate) const EXPORT_EXAMPLES: &str = "\
Examples:
  topo export plan.json --dir exported         the files of a plan that topo plan -o wrote
  topo export topology.xml --hosts 2 --dir exported
  topo export topology.xml --gpus 0-3 --also 4-7 --also 0,2,4,6 --dir exported
  topo export dgx-1v.xml --all-subsets --dir exported
                                               every set of two GPUs or more
  topo export topology.xml --set NCCL_ALGO=allreduce:ring --dir exported
  topo export topology.xml --op avg --type bf16 --dir exported
                                               choices for averages, as FSDP calls them
  topo export topology.xml --measured nvbandwidth.txt --dir exported
                                               choices that are fastest on measured links
  topo export topology.xml --nccl 2.28 --channels --dir exported
  NCCL_CONF_FILE=$PWD/exported/nccl.conf mpirun …
                                               NCCL obeys

The folder gets a README.md that says how to use each file.";

#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    #[command(flatten)]
    pub job: JobArguments,
    /// The folder for the files; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
    /// Another set of GPUs of every host, as for --gpus (repeatable)
    #[arg(long, value_name = "LIST", value_parser = AskedGpus::parse)]
    pub also: Vec<AskedGpus>,
    /// Every set of two GPUs or more, of machines with at most 8 GPUs
    #[arg(long, conflicts_with_all = ["also", "gpus"])]
    pub all_subsets: bool,
    /// Choices also say how many channels to take; otherwise NCCL fits its own number to each size
    #[arg(long)]
    pub channels: bool,
    #[command(flatten)]
    pub measured: MeasuredArguments,
    #[command(flatten)]
    pub element: ElementOptions,
    #[command(flatten)]
    pub form: FormArguments,
}

impl ExportArguments {
    /// Refuses sets of GPUs beside a plan, which has one.
    pub(crate) fn refuse_sets_beside_plan(&self, plan: &str) -> Result<()> {
        let given = [
            ("--also", !self.also.is_empty()),
            ("--all-subsets", self.all_subsets),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((option, _)) => bail!(
                "{plan} is a plan, which {option} cannot change; expected topology files with it"
            ),
            None => Ok(()),
        }
    }
}
