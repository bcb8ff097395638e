//! The arguments of `topo bound`.

use std::path::PathBuf;

use answers::bound::BoundQuestion;
use clap::Args;

use super::JobArguments;
use super::checks::CheckFiles;
use super::compare::FormArguments;
use super::measured::MeasuredArguments;

pub(crate) const BOUND_EXAMPLES: &str = "\
Examples:
  topo bound topology.xml                      the most that any schedule reaches, and NCCL's share
  topo bound topology.xml --hosts 2            two such machines joined by their network
  topo bound topology.xml --gpus 0-5           a job that uses some GPUs only
  topo bound topology.xml --collective all-gather
  topo bound topology.xml --links all          every link, also those that NCCL's rules exclude
  topo bound topology.xml --hosts 2 --rails    where the network joins equal ports only
  topo bound topology.xml --measured nvbandwidth.txt
                                               on links as bandwidths between GPUs show them
  topo bound topology.xml --certificate proof.json
                                               write the proofs
  topo bound --check proof.json                check proofs by arithmetic alone
  topo bound topology.xml --check proof.json   also that they are about this machine

The bound is about NCCL's model of the machine: the links and bandwidths that topo show prints; with \
--measured about those that were measured.
Exit status: 0 when there are bounds, or the proofs hold; 1 when a measured link is slower than its like; 2 \
when something is wrong.";

/// The options that mean something beside --check without a file; the others are about its job.
const OF_PROOFS: [&str; 7] = [
    "files",
    "collective",
    "links",
    "check",
    "certificate",
    "format",
    "json",
];

#[derive(Debug, Args)]
#[command(mut_args(|it| match it.get_id().as_str() {
    "files" => it.required(false).required_unless_present("check"),
    id if OF_PROOFS.contains(&id) => it,
    "junit" | "prometheus" => it.requires("measured").conflicts_with("check"),
    _ => it.requires("files"),
}))]
pub(crate) struct BoundArguments {
    #[command(flatten)]
    pub job: JobArguments,
    #[command(flatten)]
    pub question: BoundQuestion,
    /// Write the proofs (JSON) to a file
    #[arg(long, value_name = "PROOF", conflicts_with = "check")]
    pub certificate: Option<PathBuf>,
    /// Check proofs that --certificate wrote, without a search
    #[arg(long, value_name = "PROOF")]
    pub check: Option<PathBuf>,
    #[command(flatten)]
    pub measured: MeasuredArguments,
    #[command(flatten)]
    pub form: FormArguments,
    #[command(flatten)]
    pub outputs: CheckFiles,
}
