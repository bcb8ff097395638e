//! The bandwidth of a collective by NCCL's plan.

use plan::certificate::Operation;
use plan::{Algorithm, GraphKind, Plan};
use program::Collective;

/// The collective of an operation.
pub const fn collective(operation: Operation) -> Collective {
    match operation {
        Operation::AllGather => Collective::AllGather,
        Operation::ReduceScatter => Collective::ReduceScatter,
        Operation::AllReduce | Operation::AllReduceInNetwork => Collective::AllReduce,
        Operation::Broadcast => Collective::Broadcast,
        Operation::Reduce => Collective::Reduce,
        Operation::AllToAll => Collective::AllToAll,
    }
}

/// Bandwidth of NCCL's plan for long messages, GB/s of bus bandwidth: its rings, and for all-reduce
/// its best algorithm.
pub fn nccl(plan: &Plan, operation: Operation) -> Option<f64> {
    match operation {
        Operation::AllToAll => None,
        Operation::AllReduce => best(plan, Collective::AllReduce, |it| !it.reduces_in_switches()),
        Operation::AllReduceInNetwork => in_network(plan, Collective::AllReduce),
        _ => {
            let common = plan.common.as_ref()?;
            let ring = common.graph(GraphKind::Ring)?;
            let mut groups = plan.machines.iter().flat_map(|machine| &machine.groups);
            let channel = match groups.any(|group| group.inter) {
                true => ring.bw_intra.min(ring.bw_inter),
                false => ring.bw_intra,
            };
            Some(f64::from(channel) * f64::from(ring.channels))
        }
    }
}

/// Bandwidth of NCCL's plan for long messages of a collective, GB/s of bus bandwidth.
pub fn nccl_bandwidth(plan: &Plan, wanted: Collective) -> Option<f64> {
    let all = Operation::ALL
        .into_iter()
        .filter(|it| collective(*it) == wanted);
    all.filter_map(|operation| nccl(plan, operation))
        .max_by(f64::total_cmp)
}

/// The best algorithm that reduces in switches or in the network, if the plan has one.
pub fn in_network(plan: &Plan, collective: Collective) -> Option<f64> {
    best(plan, collective, Algorithm::reduces_in_switches)
}

fn best(plan: &Plan, collective: Collective, wanted: impl Fn(Algorithm) -> bool) -> Option<f64> {
    let costs = plan.costs.as_ref()?;
    let entries = costs.entries.iter().filter(|entry| {
        entry.collective == collective && wanted(entry.algorithm) && entry.bandwidth > 0.0
    });
    let factor = collective.bus_factor(costs.job.ranks);
    entries
        .map(|entry| f64::from(entry.bandwidth) * factor)
        .max_by(f64::total_cmp)
}
