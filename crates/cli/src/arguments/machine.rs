//! The commands that read machines, and those that write files for machines.

use std::path::PathBuf;

use answers::job_options::{AssumeOptions, Variables};
use clap::{Args, ValueEnum};

use super::checks::{CheckFiles, DcgmFiles};
use super::compare::FormArguments;

pub(crate) const PROBE_EXAMPLES: &str = "\
Examples:
  topo probe > topology.xml                    this machine, as NCCL would dump it
  topo probe --gpus 0,1                        as a job on two of its GPUs would see it
  topo probe --format text                     what is in it, for people
  topo probe --record machine/                 also save what was read, for a bug report
  topo probe --from machine/                   the recorded machine, anywhere else
  topo probe | topo plan -                     what NCCL would do here

topo probe respects CUDA_VISIBLE_DEVICES, NCCL_TOPO_FILE, NCCL_IB_HCA, NCCL_IB_DISABLE and \
NCCL_SOCKET_IFNAME, and the file in /var/run/nvidia-topologyd that clouds give their guests. \
Standard error says what was not found or looks wrong.
Exit status: 0 when there is a topology, 2 when the command line or a recording is wrong.";

pub(crate) const DOCTOR_EXAMPLES: &str = "\
Examples:
  topo doctor                                  check this machine
  topo doctor topology.xml                     check what a file alone can tell
  topo doctor machine/                         check a recording
  topo doctor nodes/*.xml                      check many machines, and name those that differ
  topo doctor --json                           for a node health check
  topo doctor --junit topo.xml --prometheus /var/lib/node_exporter/topo.prom

Exit status: 0 when all checks pass, 1 when there are findings or machines that differ, 3 when a machine \
cannot be judged (no driver, or a file of several that cannot be read), 2 when something is wrong.";

pub(crate) const MATRIX_EXAMPLES: &str = "\
Examples:
  topo show --matrix                                  this machine, as nvidia-smi topo -m draws it
  topo show --matrix topology.xml                     a machine from its file
  topo show --matrix machine/                         a recorded machine
  topo show --matrix --json                           for programs";

pub(crate) const COMPLETE_EXAMPLES: &str = "\
Examples:
  topo complete ndv5-topo.xml --assume h100-sxm > topology.xml
  topo complete p4d.xml --assume-gpu sm=80,nvswitch-links=12 --assume-nic speed=100000
  topo complete nebius.xml --assume-gpu sm=90,nvswitch-links=18
  topo complete ndv2-topo.xml --assume v100-cube-mesh
  topo complete workstation.xml --assume-nvlinks GPU0:GPU1=4,GPU2:GPU3=4

Files of cloud vendors hold only the PCI tree, since NCCL adds GPUs, NICs and NVLinks on the \
machine. NVLinks are added to each GPU that has none. Without --assume, topo complete says what is \
missing.";

pub(crate) const VM_EXAMPLES: &str = "\
Examples:
  topo vm host.xml --map guest-bus-ids.txt > guest.xml
  topo vm host.xml --map guest-bus-ids.txt --devices | topo plan -

The map has a line for each device of the guest: its bus id on the host, then that in the guest.
  0000:1b:00.0 0000:05:00.0
  0000:18:00.0 0000:06:00.0
Put the file at /var/run/nvidia-topologyd/virtualTopology.xml in the guest, or name it in \
NCCL_TOPO_FILE. topo writes it only if NCCL plans the guest as it plans those devices of the host.";

/// Which machine is read.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SourceArguments {
    /// Read DIR/sys and DIR/proc instead of this machine's, without the driver
    #[arg(long, value_name = "DIR", conflicts_with = "from")]
    pub sysfs_root: Option<PathBuf>,
    /// With --sysfs-root, still ask this machine's driver: in a container that sees the host's
    /// files in DIR
    #[arg(long, requires = "sysfs_root")]
    pub driver: bool,
    /// Replay a recording
    #[arg(long, value_name = "DIR")]
    pub from: Option<PathBuf>,
}

/// The forms of a probe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProbeFormat {
    /// The topology, as NCCL writes it
    #[default]
    Xml,
    /// Topology, devices and findings
    Json,
    /// Devices as tables for people
    Text,
}

/// The parts of a machine that are read, and whether they are recorded.
#[derive(Debug, Default, Args)]
pub(crate) struct SelectionArguments {
    /// Use only these GPUs, by the driver's numbers, in the order of their ranks, such as 0,1
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = gpu)]
    pub gpus: Option<Vec<u32>>,
    /// Also write GPUs, NICs and other devices without a driver
    #[arg(long)]
    pub all_devices: bool,
    /// Record what was read, in a new folder
    #[arg(long, value_name = "DIR", conflicts_with = "from")]
    pub record: Option<PathBuf>,
    /// Record guids, UUIDs and serial numbers as they are
    #[arg(long, requires = "record")]
    pub with_identifiers: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ProbeArguments {
    #[command(flatten)]
    pub source: SourceArguments,
    #[command(flatten)]
    pub selection: SelectionArguments,
    /// What to print
    #[arg(long, value_enum, default_value_t = ProbeFormat::Xml)]
    pub format: ProbeFormat,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Topology files, folders that hold topology.xml, recordings, or - for standard input
    /// [default: this machine]
    #[arg(value_name = "FILE|DIR", conflicts_with_all = ["sysfs_root", "from"])]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub dcgm: DcgmFiles,
    #[command(flatten)]
    pub source: SourceArguments,
    #[command(flatten)]
    pub form: FormArguments,
    #[command(flatten)]
    pub outputs: CheckFiles,
    #[command(flatten)]
    pub variables: Variables,
}

#[derive(Debug, Args)]
pub(crate) struct MatrixArguments {
    /// Topology file, a folder that holds topology.xml, a recording, or - for standard input
    /// [default: this machine]
    #[arg(value_name = "FILE|DIR", conflicts_with_all = ["sysfs_root", "from"])]
    pub file: Option<PathBuf>,
    #[command(flatten)]
    pub source: SourceArguments,
    #[command(flatten)]
    pub form: FormArguments,
}

#[derive(Debug, Args)]
pub(crate) struct CompleteArguments {
    /// Topology file, a folder that holds topology.xml, a recording, or - for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub assume: AssumeOptions,
    /// Write the completed file here instead of to standard output
    #[arg(short, long, value_name = "XML")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct VmArguments {
    /// The host's topology file, complete, as `topo probe` or NCCL writes it
    #[arg(value_name = "HOST")]
    pub host: PathBuf,
    /// Bus ids of the guest's devices on the host and in the guest
    #[arg(long, value_name = "MAP")]
    pub map: PathBuf,
    /// Also write GPUs, NVLinks and network devices, for planning the guest elsewhere
    #[arg(long)]
    pub devices: bool,
    /// Write the file here instead of to standard output
    #[arg(short, long, value_name = "XML")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub variables: Variables,
}

/// Reads a GPU's number.
fn gpu(text: &str) -> Result<u32, String> {
    let read = text.trim().parse();
    read.map_err(|_| "expected the numbers of GPUs, separated by commas, such as 0,1".to_owned())
}
