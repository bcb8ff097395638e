//! The arguments of `topo tune`.

use std::path::PathBuf;

use answers::tune::TuneQuestion;
use clap::{Args, ValueEnum};

use super::JobArguments;

pub(crate) const TUNE_EXAMPLES: &str = "\
Examples:
  topo tune topology.xml                       what makes NCCL faster here, and how much
  topo tune topology.xml --dir tuned           and the files: nccl.conf, graph, tuner plug-in
  NCCL_CONF_FILE=$PWD/tuned/nccl.conf mpirun …
                                               NCCL obeys
  topo tune topology.xml --dir tuned --nccl-library libnccl.so.2
                                               let this NCCL confirm that it takes the files
  topo tune topology.xml --hosts 2 --collective all-gather --sizes 64K..64M
  topo tune topology.xml --from 64K            for jobs without short messages
  topo tune topology.xml --set NCCL_GRAPH_FILE=theirs.xml
                                               is a graph file from elsewhere as good?
  topo tune topology.xml --profile mine.toml   times by constants that topo expect --results --fit wrote
  topo tune topology.xml --format html > tune.html
                                               a page to share, with pictures

Gains are predictions of NCCL's cost model, with the bandwidth that the rings carry. Nothing is \
proposed that slows any collective between 1 KiB (--from) and 8 GiB in this model.
Exit status: 0 when there is an answer, also where nothing can be gained; 1 when a library decides \
otherwise; 2 when something is wrong.";

/// The forms of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TuneFormat {
    /// A page for people
    Text,
    /// JSON
    Json,
    /// A page with pictures of the tuned rings and trees, for browsers
    Html,
}

#[derive(Debug, Args)]
pub(crate) struct TuneArguments {
    #[command(flatten)]
    pub job: JobArguments,
    #[command(flatten)]
    pub question: TuneQuestion,
    /// Take times from this cost profile, which topo expect --results --fit wrote; NCCL still
    /// chooses by its own constants
    #[arg(long, value_name = "TOML")]
    pub profile: Option<PathBuf>,
    /// Write the files for NCCL into this folder; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Ask this NCCL library, without a GPU, whether it takes the files and decides as planned
    /// (repeatable); or a version, such as 2.30.7, from the cache of topo nccl-check
    #[arg(long, value_name = "libnccl.so.2|VERSION", requires = "dir")]
    pub nccl_library: Vec<PathBuf>,
    /// What to print
    #[arg(long, value_enum, default_value_t = TuneFormat::Text)]
    format: TuneFormat,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

impl TuneArguments {
    pub(crate) const fn format(&self) -> TuneFormat {
        match self.json {
            true => TuneFormat::Json,
            false => self.format,
        }
    }
}
