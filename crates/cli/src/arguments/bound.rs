//! The arguments of `topo bound`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use plan::certificate::LinkSet;
use program::Collective;

use super::JobArguments;
use super::compare::FormArguments;
use super::measured::MeasuredArguments;
use crate::sizes;

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
Exit status: 0 when there are bounds, or the proofs hold; 2 when something is wrong.";

/// Which links a bound counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Links {
    /// Links and turns on paths that NCCL's rules allow
    Rules,
    /// Every link and every turn
    All,
}

impl Links {
    /// The name of the option's value.
    pub const fn name(links: LinkSet) -> &'static str {
        match links {
            LinkSet::Rules => "rules",
            LinkSet::All => "all",
        }
    }
}

impl From<Links> for LinkSet {
    fn from(links: Links) -> Self {
        match links {
            Links::Rules => Self::Rules,
            Links::All => Self::All,
        }
    }
}

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
    _ => it.requires("files"),
}))]
pub(crate) struct BoundArguments {
    #[command(flatten)]
    pub job: JobArguments,
    /// Only this collective: all-gather, reduce-scatter, all-reduce, broadcast, reduce, all-to-all
    /// [default: all of them]
    #[arg(long, value_name = "NAME", value_parser = sizes::collective)]
    pub collective: Option<Collective>,
    /// The links that a schedule may use [default: rules]
    #[arg(long, value_enum)]
    pub links: Option<Links>,
    /// The network has rails: a port reaches only the ports with its number on other hosts
    #[arg(long)]
    pub rails: bool,
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
}
