//! The arguments of `topo diagnose`.

use std::path::PathBuf;

use answers::values::within;
use clap::Args;

use super::checks::CheckFiles;
use super::compare::FormArguments;

pub(crate) const DIAGNOSE_EXAMPLES: &str = "\
Examples:
  topo diagnose job.log                        a log with NCCL's lines, PyTorch's, the kernel's
  topo diagnose /tmp/nccl_trace_rank_*         flight recorders of all ranks
  topo diagnose collected/ more.tar.gz ras.zip
                                               folders and archives, in any mix
  dmesg | topo diagnose -
  topo diagnose job.log --topology dgx-h100    how long the call takes on that machine
  topo diagnose collected.tar.gz --json
  topo diagnose --list                         the causes that are known

Reads logs (also compressed with gzip), PyTorch's flight recorders (pickle and JSON; nothing in them \
is executed), reports of ncclras (text and JSON), lines of NCCL's Inspector, topology files, listings \
(nvidia-smi topo, -q, -q -x, nvlink -s; lspci -vv, ibstat, rdma link, dmesg) and matrices of nvbandwidth \
(text and JSON) and p2pBandwidthLatencyTest.
Exit status: 0 when nothing is found, 1 when there is a verdict, 3 when an error has no known cause or one \
of several inputs cannot be read, 2 when none can be.";

pub(crate) const COLLECT_EXAMPLES: &str = "\
Examples:
  topo diagnose --collect                      this host, into topo-HOST.tar.gz
  topo diagnose --collect job.log logs/ -o mine.tar.gz  with logs of the job
  srun --ntasks-per-node=1 topo diagnose --collect  each host of a job, into the shared folder
  mpirun --map-by ppr:1:node topo diagnose --collect
  topo diagnose --collect --redact WORD        without host names, addresses, guids, serial numbers
  topo diagnose topo-*.tar.gz                  what the archives say together

Packs the topology, NCCL's and PyTorch's variables, nccl.conf, NCCL's log (NCCL_DEBUG_FILE), flight \
recorders, the kernel's lines about GPUs, links and memory, and what nvidia-smi, lspci, lscpu, \
numactl, ibstat, ibv_devinfo, rdma and ncclras print. Each program has 10 s. Read the archive before \
you give it away: recorders and logs name files and hosts.
Exit status: 0 when the archive is written, 2 when it cannot be.";

/// What is collected of this host.
#[derive(Debug, Args)]
pub(crate) struct CollectArguments {
    /// Also pack these files, and the files of these folders
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// The archive [default: topo-HOST.tar.gz]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace host and user names, addresses, guids, serial numbers and secrets, and leave out
    /// what is no text; the same WORD replaces them alike on all hosts
    #[arg(long, value_name = "WORD")]
    pub redact: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DiagnoseArguments {
    /// What is left of a job: files, folders, .tar.gz and .zip, or - for standard input
    #[arg(value_name = "FILE", required_unless_present = "list")]
    pub files: Vec<PathBuf>,
    /// Price calls that did not end on this machine: a topology file, a listing or a known machine
    /// [default: the first one among FILE]
    #[arg(long, value_name = "MACHINE")]
    pub topology: Option<PathBuf>,
    /// Hosts in the job [default: as many as the evidence names]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = within::<u32>(1..=1_048_576))]
    pub hosts: Option<u32>,
    /// With --json: all events, which are warnings of NCCL and lines with a known meaning
    #[arg(long)]
    pub events: bool,
    /// Print the causes that are known
    #[arg(long, conflicts_with = "files")]
    pub list: bool,
    #[command(flatten)]
    pub form: FormArguments,
    #[command(flatten)]
    pub outputs: CheckFiles,
}
