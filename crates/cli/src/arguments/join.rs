//! The options of a rank that is a process of its own.

use std::net::SocketAddr;

#[cfg(target_os = "linux")]
pub(crate) use net::MOST_RANKS;

use answers::values::within;

/// Most ranks, where the crate that runs them is not there: help says the same everywhere.
#[cfg(not(target_os = "linux"))]
pub const MOST_RANKS: u32 = 65_536;

use clap::{Args, ValueEnum};

/// The program that starts the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LauncherName {
    /// The launcher whose variables are in the environment
    Auto,
    /// No launcher: this process starts all ranks
    None,
    /// PyTorch's torchrun, or another launcher that sets RANK and WORLD_SIZE
    Torchrun,
    /// Open MPI's mpirun
    Openmpi,
    /// MPICH's and Intel MPI's mpirun, or another launcher that sets PMI_RANK and PMI_SIZE
    Mpich,
    /// Slurm's srun
    Slurm,
    /// An indexed job of Kubernetes
    Kubernetes,
}

/// How a rank joins the others.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Ranks on several hosts (docs/hosts.md)")]
pub(crate) struct JoinArguments {
    /// The rank of this process, or with -t or -g its number; needs --world
    #[arg(long, value_name = "RANK", requires = "world", value_parser = within::<u32>(0..=u64::from(u32::MAX)))]
    pub rank: Option<u32>,
    /// Processes of the job, each one rank, or -t times -g
    #[arg(long, value_name = "N", value_parser = within::<u32>(1..=u64::from(MOST_RANKS)))]
    pub world: Option<u32>,
    /// The job's unique id: @FILE from topo run --new-id -o FILE, or the id itself, which every
    /// user of this host can then read
    #[arg(long, value_name = "@FILE|ID", conflicts_with = "rendezvous")]
    pub id: Option<String>,
    /// Where ranks meet: file:PATH (on a file system that all share) or tcp:HOST:PORT (of rank 0)
    #[arg(long, value_name = "WHERE")]
    pub rendezvous: Option<String>,
    /// The launcher whose variables say which rank this is
    #[arg(long, value_enum, default_value_t = LauncherName::Auto)]
    pub launcher: LauncherName,
    /// Fail when not all ranks have met within this time, s
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = within::<u64>(1..=86_400))]
    pub join_timeout: u64,
    /// When ranks are lost, continue without them
    #[arg(long)]
    pub survive: bool,
    /// TCP sockets for each connection between hosts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = within::<u16>(1..=64))]
    pub sockets: u16,
    /// Protect all data between hosts by checksums
    #[arg(long)]
    pub checksums: bool,
    /// NCCL net plug-in for data between hosts: a library's path, its name, NAME of
    /// libnccl-net-NAME.so, several separated by commas, or none [default: NCCL_NET_PLUGIN, or
    /// libnccl-net.so if it is installed]
    #[arg(long, value_name = "NAME")]
    pub net_plugin: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct IdArguments {
    /// Where the roots will listen: ADDRESS:PORT of rank 0's host; several, separated by commas,
    /// for thousands of ranks
    #[arg(value_name = "ADDRESS:PORT", required = true, value_delimiter = ',', value_parser = root)]
    pub roots: Vec<SocketAddr>,
    /// Write the id to a file that only this user can read, instead of printing it
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<std::path::PathBuf>,
}

/// Reads ADDRESS:PORT.
fn root(text: &str) -> Result<SocketAddr, String> {
    let read = text.trim().parse();
    read.map_err(|_| "expected an IP address and a port, such as 10.0.0.1:29500".to_owned())
}

pub(crate) const ID_EXAMPLES: &str = "\
Examples:
  topo run --new-id 10.0.0.1:29500 -o job.id            an id for ranks that are started by hand
  topo run all-reduce --rank 0 --world 2 --id @job.id   on the host that has 10.0.0.1
  topo run all-reduce --rank 1 --world 2 --id @job.id   on another, with a copy of the file (scp -p)

The id holds a random token. A process that knows it can join the job, so treat it as a password. \
The variable TOPO_ID can hold the id instead of --id.";
