//! NCCL's rings and chains with the bandwidth that the links carry, where NCCL states less.
//!
//! NCCL knows only some bandwidths, and where its search finds nothing it states 0.1 GB/s. Its cost
//! model compares algorithms by what is stated. [`restate`] plans a job again with what the links
//! carry, so that plans can be compared by that.

use plan::{CostTable, Graph, GraphKind};
use planner::search::hops::Hops;
use planner::{Error, Job, Planned};

use super::packing::packing;
use super::relaxation::Column;
use super::replan::with_graphs;
use super::rows::Rows;
use super::{chain_speed, column, in_six_digits, shortest, units};

/// What NCCL states for a channel through all GPUs where its search finds nothing, GB/s.
const STAND_IN: f32 = 0.1;

/// The costs of a planned job if NCCL's rings, and trees for which NCCL found no bandwidth, had the
/// bandwidth that the links carry. `job` may have another cost profile than the plan. `optimism`:
/// NCCL states so many times as much inside a host as rings over the network carry; 1 for its own
/// rings.
///
/// Rings of a graph file that was given get what they carry, other rings at least what NCCL states.
///
/// # Errors
/// The job cannot be planned with its cost profile.
pub fn restate(job: &Job, planned: &Planned, optimism: f32) -> Result<CostTable, Error> {
    let graphs = graphs(planned, optimism);
    // A graph file cannot express some types of paths and parts of GPUs.
    let restated = graphs.and_then(|graphs| with_graphs((job, planned), &graphs).ok());
    match (restated, &job.profile) {
        (Some(restated), _) => Ok(restated.costs),
        (None, Some(_)) => Ok(planner::plan(job, &planned.settings)?.costs),
        (None, None) => Ok(planned.costs.clone()),
    }
}

/// The rings and trees with other bandwidths than NCCL states; `None` if there are none, or if
/// no rings are searched for the job.
fn graphs(planned: &Planned, optimism: f32) -> Option<Vec<Graph>> {
    let [machine] = planned.machines() else {
        return None;
    };
    let [node] = &machine.nodes[..] else {
        return None;
    };
    let hops = Hops::of(&node.view);
    if hops.ranks.len() > shortest::MOST_GPUS || planned.job.layout().ranks() < 2 {
        return None;
    }
    let rows = Rows::new(&hops);
    let common = planned.job.common();
    let used = |kind| common.graph(kind).map(|graph| graph.channels as usize);
    let mut changed = false;
    let mut graphs = Vec::new();
    for kind in [GraphKind::Ring, GraphKind::Tree] {
        let mut graph = node.graph(kind)?.clone();
        graph.channels.truncate(used(kind)?);
        let stated = [graph.bw_intra, graph.bw_inter];
        match kind {
            GraphKind::Ring => {
                let speed = in_six_digits(ring_speed(&rows, &hops, &graph)?);
                let is_given = planned.settings.graphs.is_some();
                let least = |stated: f32| if is_given { 0.0 } else { stated };
                graph.bw_intra = least(graph.bw_intra).max(speed * optimism.max(1.0));
                graph.bw_inter = least(graph.bw_inter).max(speed);
            }
            _ if graph.bw_intra <= STAND_IN => {
                if let Some(speed) = chain_speed(&rows, &hops, &graph).map(in_six_digits) {
                    graph.bw_intra = graph.bw_intra.max(speed);
                    graph.bw_inter = graph.bw_inter.max(speed);
                }
            }
            _ => {}
        }
        changed |= stated != [graph.bw_intra, graph.bw_inter];
        graphs.push(graph);
    }
    changed.then_some(graphs)
}

/// The bandwidth that each ring carries, 0.1 MB/s; `None` if a hop of one has no path.
fn ring_speed(rows: &Rows, hops: &Hops, graph: &Graph) -> Option<u64> {
    let columns = graph.channels.iter().map(|it| column(rows, hops, it));
    let columns: Vec<Column> = columns.collect::<Option<_>>()?;
    let all = (0..columns.len()).collect();
    let packed = packing(rows, &columns, all, units(hops.fastest));
    (packed.speed > 0).then_some(packed.speed)
}
