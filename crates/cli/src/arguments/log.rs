//! The arguments of `topo diagnose --log`.

use std::path::PathBuf;

use answers::job_options::{AssumeOptions, Variables};
use answers::values::within;
use clap::Args;

use super::compare::FormArguments;

pub(crate) const LOG_EXAMPLES: &str = "\
Examples:
  NCCL_DEBUG=INFO ./job > job.log 2>&1; topo diagnose --log job.log
  topo diagnose --log nccl.*.log                          the files of one job, one per rank
  topo diagnose --log job.log.gz                          compressed
  kubectl logs job-0 | topo diagnose --log -
  topo diagnose --log job.log --topology topology.xml     compared with the plan for this machine
  topo diagnose --log job.log --topology a100.xml --assume a100-sxm
  topo diagnose --log job.log --json

More of NCCL's decisions are in the log with NCCL_DEBUG_SUBSYS=INIT,ENV,GRAPH,TUNING,NET,P2P,SHM.
Exit status: 0 when all is well, 1 when NCCL warns, a host or rank is odd or not ready, or the plan \
differs, 2 when the log or a ring, tree or channel in it cannot be read.";

#[derive(Debug, Args)]
pub(crate) struct LogArguments {
    /// Logs of one job, also compressed with gzip, or - for standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Compare with the plan for this machine: a topology file, or a folder that holds topology.xml
    #[arg(long, value_name = "FILE")]
    pub topology: Option<PathBuf>,
    /// Hosts in the job [default: as many as the log names]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = within::<u32>(1..=1_048_576), requires = "topology")]
    pub hosts: Option<u32>,
    /// All hosts form one NVLink domain (MNNVL, such as GB200 NVL72)
    #[arg(long, requires = "topology")]
    pub nvlink_domain: bool,
    #[command(flatten)]
    pub assume: AssumeOptions,
    #[command(flatten)]
    pub variables: Variables,
    #[command(flatten)]
    pub form: FormArguments,
}
