//! The arguments of `topo expect --results`.

use std::path::PathBuf;

use answers::gpus::AskedGpus;
use answers::job_options::{AssumeOptions, Variables};
use answers::names;
use answers::values::within;
use clap::Args;
use program::Collective;

use super::checks::CheckFiles;
use super::compare::FormArguments;

pub(crate) const RESULTS_EXAMPLES: &str = "\
Examples:
  ./all_reduce_perf -b 8 -e 8G -f 2 -g 8 > job.log; topo expect --results job.log
  topo expect --results job.log --topology topology.xml  beside the prediction and the bound
  topo expect --results job.json --plan plan.json  JSON of nccl-tests -J; a plan from topo plan -o
  topo expect --results *.log --topology topology.xml --fit mine.toml
                                                 fit the cost model to all tables
  topo expect --results new.log --topology topology.xml --profile mine.toml
                                                 does the fit predict other measurements?
  topo expect --results job.log --topology topology.xml --expect
                                                 does a healthy machine measure this?
  topo cost topology.xml --profile mine.toml     predict with the fitted constants
  topo run all-reduce --json | topo expect --results -

A log with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING says which algorithm ran; otherwise \
it is the one that NCCL takes by the plan.
Exit status: 0 when all is as predicted, 1 when something \
falls short or results are wrong, 2 when there are no measurements or a file cannot be read; with \
--expect 3, UNKNOWN, when there is no table, a row is cut or other GPUs were measured.";

#[derive(Debug, Args)]
pub(crate) struct ResultsArguments {
    /// Output of nccl-tests, rccl-tests (also in logs, also compressed with gzip) or topo run
    /// --json, or - for standard input
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Compare with the plan for this machine: a topology file, or a folder that holds topology.xml
    #[arg(long, value_name = "FILE", conflicts_with = "plan")]
    pub topology: Option<PathBuf>,
    /// Compare with this plan, which topo plan -o wrote
    #[arg(long, value_name = "PLAN")]
    pub plan: Option<PathBuf>,
    /// Hosts in the job [default: as many as a file names, or 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = within::<u32>(1..=1_048_576), requires = "topology")]
    pub hosts: Option<u32>,
    /// GPUs of each host, such as 0-3 [default: those that a file names, or the first ones]
    #[arg(long, value_name = "LIST", requires = "topology", value_parser = AskedGpus::parse)]
    pub gpus: Option<AskedGpus>,
    /// All hosts form one NVLink domain (MNNVL, such as GB200 NVL72)
    #[arg(long, requires = "topology")]
    pub nvlink_domain: bool,
    /// The collective of tables whose program the file does not name
    #[arg(long, value_name = "NAME", value_parser = names::collective)]
    pub collective: Option<Collective>,
    /// Predict with the constants of this cost profile (TOML) [default: those of NCCL's version]
    #[arg(long, value_name = "PROFILE", requires = "topology")]
    pub profile: Option<PathBuf>,
    /// Judge by what healthy machines reach (topo expect), instead of by predicted times
    #[arg(long)]
    pub expect: bool,
    /// Fit the constants of the cost model to the measurements, and write them as a cost profile
    #[arg(long, value_name = "PROFILE", requires = "topology")]
    pub fit: Option<PathBuf>,
    #[command(flatten)]
    pub assume: AssumeOptions,
    #[command(flatten)]
    pub variables: Variables,
    #[command(flatten)]
    pub form: FormArguments,
    #[command(flatten)]
    pub outputs: CheckFiles,
}
