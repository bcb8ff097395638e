//! NCCL's graph files (`NCCL_GRAPH_FILE`) of a plan, so that every host can read them.

use plan::nccl_graph::write_by_device;
use plan::{Error, Plan};

/// A graph file of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MachineGraphs {
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
/// # Errors
/// NCCL's files have no word for a type of path that a graph uses.
pub(super) fn graph_files(plan: &Plan) -> Result<Vec<MachineGraphs>, Error> {
    let mut files = Vec::new();
    for (machine, of) in plan.machines.iter().enumerate() {
        let addresses = of.gpu_addresses();
        let are_apart = of.groups.len() > 1;
        for group in &of.groups {
            let members = of.members(group).into_iter();
            files.push(MachineGraphs {
                machine,
                readers: are_apart.then(|| members.map(|(_, dev)| dev).collect()),
                text: write_by_device(&group.graphs, &addresses)?,
            });
        }
    }
    Ok(files)
}
