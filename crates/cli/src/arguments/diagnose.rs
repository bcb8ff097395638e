//! The arguments of `topo diagnose`.

use std::path::PathBuf;

use clap::Args;

use super::compare::FormArguments;

pub const DIAGNOSE_EXAMPLES: &str = "\
Examples:
  topo diagnose job.log                        a log with NCCL's lines, PyTorch's, the kernel's
  topo diagnose /tmp/nccl_trace_rank_*         flight recorders of all ranks
  topo diagnose collected/ more.tar.gz ras.zip folders and archives, in any mix
  dmesg | topo diagnose -
  topo diagnose collected.tar.gz --json
  topo diagnose --list                         the causes that are known

Reads logs (also compressed with gzip), PyTorch's flight recorders (pickle and JSON; nothing in them
is executed), reports of ncclras (text and JSON).
Exit status: 0 when nothing is found, 1 when there is a verdict, 2 when an input cannot be read.";

#[derive(Debug, Args)]
pub struct DiagnoseArguments {
    /// What is left of a job: files, folders, .tar.gz and .zip, or - for standard input
    #[arg(value_name = "FILE", required_unless_present = "list")]
    pub files: Vec<PathBuf>,
    /// Print the causes that are known
    #[arg(long, conflicts_with = "files")]
    pub list: bool,
    #[command(flatten)]
    pub form: FormArguments,
}
