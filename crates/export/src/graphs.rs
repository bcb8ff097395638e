//! NCCL's graph files (`NCCL_GRAPH_FILE`) of a plan, so that every host can read them.

use plan::nccl_graph::{GpuAddress, write_as};
use plan::{Error, NcclVersion, Plan, PlannedMachine};

/// The GPUs of a machine, as graph files name them.
fn addresses(machine: &PlannedMachine) -> Vec<GpuAddress> {
    let gpus = machine.gpus.iter();
    gpus.map(|gpu| GpuAddress {
        rank: gpu.rank as i32,
        host: gpu.host,
        dev: gpu.dev,
    })
    .collect()
}

/// A graph file of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineGraphs {
    /// The machine, as an index into the plan's `machines`.
    pub machine: usize,
    /// Device numbers of the GPUs whose ranks read it, if not all of the machine: GPUs that only
    /// the network joins are searched apart, and have graphs of their own.
    pub readers: Option<Vec<i32>>,
    /// The text.
    pub text: String,
}

/// The graph files of a plan, in the order of its machines.
///
/// GPUs are named by device number only. NCCL 2.30 and newer also write ranks, and believe them
/// when they read; but a rank is right on one host only, and a device number on all equal hosts.
///
/// # Errors
/// NCCL's files have no word for a type of path that a graph uses.
pub fn graph_files(plan: &Plan) -> Result<Vec<MachineGraphs>, Error> {
    let mut files = Vec::new();
    for (machine, of) in plan.machines.iter().enumerate() {
        let addresses = addresses(of);
        let are_apart = of.groups.len() > 1;
        for group in &of.groups {
            let members = of.members(group).into_iter();
            files.push(MachineGraphs {
                machine,
                readers: are_apart.then(|| members.map(|(_, dev)| dev).collect()),
                text: write_as(NcclVersion::V2_27, &group.graphs, &addresses)?,
            });
        }
    }
    Ok(files)
}
