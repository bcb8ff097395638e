//! The arguments of `topo simulate --network-only`.

use std::path::PathBuf;

use answers::names;
use answers::values::within;
use clap::Args;
use program::Collective;

use super::compare::FormArguments;
use program::size;

pub(crate) const FABRIC_EXAMPLES: &str = "\
Examples:
  topo simulate --network-only topology.conf   switches of Slurm or topograph, and the best rank order
  topo simulate --network-only topology.conf --nodes \"$SLURM_JOB_NODELIST\"
                                               of the hosts of a job, in the order of its ranks
  topo simulate --network-only topology.conf --nodes node[1-16] --hostfile hosts.txt
                                               write the hosts in the best order, for mpirun or srun
  topo simulate --network-only topology.conf --topology topology.xml --oversubscription 4 --size 1G
                                               what both orders cost
  topo simulate --network-only fabric.toml --hosts 8  leaf switches of a fabric file
  topo simulate --network-only ring.toml       cables without a switch: which trees cannot be connected

Exit status: 0 when rings cross switches as seldom as possible and all links can be connected, 1 when \
another order is better or a link cannot be connected, 2 when something is wrong.";

#[derive(Debug, Args)]
pub(crate) struct FabricArguments {
    /// Switches: Slurm's topology.conf or topology.yaml (topograph writes them too), the output of
    /// ibnetdiscover; or a fabric file (TOML)
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The hosts of the job in rank order, as Slurm lists them: node[1-4],node7 [default: all of a
    /// topology.conf]
    #[arg(long, value_name = "LIST")]
    pub nodes: Option<String>,
    /// Hosts of the job, for a fabric file [default: those that its lists name]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = within::<u32>(1..=65_536))]
    pub hosts: Option<u32>,
    /// Write the names of the hosts in the best order, one per line
    #[arg(long, value_name = "PATH")]
    pub hostfile: Option<PathBuf>,
    /// Simulate a collective in both orders: the topology file of each host
    #[arg(long, value_name = "FILE")]
    pub topology: Option<PathBuf>,
    /// The collective that is simulated
    #[arg(long, value_name = "NAME", value_parser = names::collective, default_value = "all-reduce")]
    pub collective: Collective,
    /// The size that is simulated
    #[arg(long, value_name = "SIZE", value_parser = size::parse, default_value = "256M")]
    pub size: u64,
    /// Bandwidth of the ports of a leaf switch over that of its uplinks [default: that of the
    /// fabric file, or 2]
    #[arg(long, value_name = "X")]
    pub oversubscription: Option<f64>,
    #[command(flatten)]
    pub form: FormArguments,
}
