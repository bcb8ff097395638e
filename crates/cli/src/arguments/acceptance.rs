//! The arguments of `topo expect --run`.

use std::path::PathBuf;

use answers::acceptance::AcceptanceQuestion;
use clap::Args;

use super::checks::{CheckFiles, DcgmFiles};
use super::compare::FormArguments;
use super::machine::SourceArguments;

pub(crate) const ACCEPTANCE_EXAMPLES: &str = "\
Examples:
  topo expect --run -o report                  read this machine, measure it, and judge both
  topo expect --run --tests ~/nccl-tests/build --dcgm diag.txt -o report
  srun --ntasks-per-node 8 --gpus-per-task 1 topo expect --run -o report
                                               on several hosts, a process for each GPU
  topo expect --run --end 64M --timeout 60     a short one

Collectives are measured by nccl-tests where it is installed (--tests, PATH), else on one host by \
PyTorch, else by `topo run`, whose kernels are not NCCL's: nothing is expected of them. Links are \
measured by nvbandwidth where it is installed, else by `topo run --pairs`. The folder of -o gets \
report.txt, .md, .html, .json and .xml (JUnit), topology.xml, and what each program printed; with \
a launcher a folder for each host.
Exit status: 0 pass, 1 fail, 2 the command line is wrong, 3 UNKNOWN.";

#[derive(Debug, Args)]
#[command(mut_arg("from", |from| from.hide(true)))]
pub(crate) struct AcceptanceArguments {
    #[command(flatten)]
    pub question: AcceptanceQuestion,
    #[command(flatten)]
    pub dcgm: DcgmFiles,
    /// Write the report and everything that it is made of into DIR
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub source: SourceArguments,
    #[command(flatten)]
    pub form: FormArguments,
    #[command(flatten)]
    pub outputs: CheckFiles,
}
