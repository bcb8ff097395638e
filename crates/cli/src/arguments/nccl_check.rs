//! The arguments of `topo nccl-check`.

use std::path::PathBuf;

use answers::cost::CallOptions;
use answers::job_options::{RankOptions, driver_version, variable};
use answers::sizes::Sizes;
use answers::values::within;
use clap::{Args, ValueEnum};

use super::HostsArguments;
use super::compare::FormArguments;

pub(crate) const NCCL_CHECK_EXAMPLES: &str = "\
Examples:
  topo nccl-check topology.xml --nccl libnccl.so.2
  topo nccl-check topologies/dgx-h100 --hosts 2 --nccl libnccl.so.2
  topo nccl-check one.xml other.xml --nccl libnccl.so.2    hosts that differ
  topo nccl-check topology.xml --gpus 0,1,5,6 --nccl libnccl.so.2
  topo nccl-check topology.xml --nccl libnccl.so.2 --set NCCL_CROSS_NIC=0
  topo nccl-check topology.xml --nccl libnccl.so.2 --tuner ./libnccl-tuner-topo.so
  topo nccl-check topology.xml --nccl libnccl.so.2 --json
  topo nccl-check topology.xml --nccl 2.30.7 --yes   fetch it from PyPI first

topo starts this NCCL, unmodified, on stand-ins for the GPUs and network ports of the file: a process \
per host, without a GPU, without root, over the loopback interface only. NCCL's variables of the \
environment and nccl.conf are not read; --set gives variables to both sides.
Exit status: 0 when NCCL decides as planned in everything that this version can say, 1 when something \
differs or is lacking, 2 when NCCL cannot be asked.";

/// The network that NCCL finds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Net {
    /// The file's ports through a net plug-in that merges them as NCCL's InfiniBand transport does
    #[default]
    Ib,
    /// The file's ports through a net plug-in, each by itself
    Plugin,
    /// No ports: NCCL's sockets over the loopback interface
    Socket,
}

#[derive(Debug, Args)]
pub(crate) struct NcclCheckArguments {
    #[command(flatten)]
    pub hosts: HostsArguments,
    #[command(flatten)]
    pub ranks: RankOptions,
    /// NCCL's library; or a version, such as 2.30.7, which is fetched from PyPI by pip into a cache
    #[arg(long, value_name = "libnccl.so.2|VERSION")]
    pub nccl: PathBuf,
    /// Fetch the version if the cache lacks it, and agree to its license, NVIDIA's
    #[arg(long)]
    pub yes: bool,
    /// End NCCL when it has not answered after this, s [default: 60, and 2 for each GPU]
    #[arg(short = 'T', long, value_name = "S", value_parser = within::<u64>(1..=86_400))]
    pub timeout: Option<u64>,
    /// The network that NCCL finds
    #[arg(long, value_enum, default_value_t = Net::Ib)]
    pub net: Net,
    /// Let NCCL load this tuner plug-in, such as libnccl-tuner-topo.so of topo export; times are
    /// not compared then
    #[arg(long, value_name = "LIBRARY")]
    pub tuner: Option<PathBuf>,
    /// Message sizes that NCCL is asked about; ranges double
    #[arg(
        long,
        value_name = "SIZES",
        value_delimiter = ',',
        default_value = "1K,8K,64K,512K,4M,32M,256M"
    )]
    pub sizes: Vec<Sizes>,
    /// Let all ranks send to each other, and compare the channels between them
    #[arg(long)]
    pub peers: bool,
    #[command(flatten)]
    pub calls: CallOptions,
    /// Set one of NCCL's variables, for NCCL and for the plan (repeatable)
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = variable)]
    pub set: Vec<(String, String)>,
    /// The driver that the stand-ins present, by its version of CUDA
    #[arg(long, value_name = "VERSION", value_parser = driver_version, default_value = "12.9")]
    pub driver_version: String,
    #[command(flatten)]
    pub form: FormArguments,
}
