//! A job planned again with a set of rings, as NCCL plans it with a graph file.

use plan::nccl_graph::{self, GraphFile};
use plan::{Graph, GraphKind};
use planner::{Error, Job, Planned, Settings};

use super::{RingSearch, carried};

/// The name of the graph file in messages.
const FILE: &str = "the graph file of the rings";

/// A job planned with a set of rings.
#[derive(Debug)]
pub struct ReplannedJob {
    /// The plan.
    pub planned: Planned,
    /// The graph file that NCCL follows (`NCCL_GRAPH_FILE`).
    pub file: String,
}

/// Plans a job again with the rings of a search. NCCL searches its other graphs for as many
/// channels; where that leaves fewer trees than rings, which would cost rings, the rings serve as
/// chains. On measured links, which `on_links` puts under a plan, the file also states what the
/// trees carry there.
///
/// # Errors
/// NCCL would refuse the rings.
pub fn replan(
    job: &Job,
    planned: &Planned,
    search: &RingSearch,
    on_links: Option<&dyn Fn(&Planned) -> Planned>,
) -> Result<ReplannedJob, Error> {
    let rings = std::slice::from_ref(&search.graph);
    let searched = with_graphs((job, planned), rings)?;
    let used = searched.job.common().graph(GraphKind::Ring);
    let too_few = used.is_none_or(|graph| (graph.channels as usize) < search.graph.channels.len());
    let chains = search.chains.filter(|_| too_few);
    let searched = match chains.and_then(|speed| chains_of(&searched, search, speed)) {
        Some(chains) => with_graphs((job, planned), &[search.graph.clone(), chains])?,
        None => searched,
    };
    finished((job, planned), &searched, rings, on_links)
}

/// As [`replan`], with the rings as chains in place of trees; `None` if they are no chains.
///
/// # Errors
/// NCCL would refuse the rings.
pub fn replan_with_chains(
    job: &Job,
    planned: &Planned,
    search: &RingSearch,
) -> Result<Option<ReplannedJob>, Error> {
    let chains = search.chains;
    let Some(chains) = chains.and_then(|speed| chains_of(planned, search, speed)) else {
        return Ok(None);
    };
    let searched = with_graphs((job, planned), &[search.graph.clone(), chains])?;
    let rings = std::slice::from_ref(&search.graph);
    finished((job, planned), &searched, rings, None).map(Some)
}

/// The plan with a file of all graphs.
fn finished(
    (job, planned): (&Job, &Planned),
    searched: &Planned,
    rings: &[Graph],
    on_links: Option<&dyn Fn(&Planned) -> Planned>,
) -> Result<ReplannedJob, Error> {
    // Files have no text for some types of paths, which the other graphs may use.
    let mut all = searched.node(0).graphs.clone();
    let carried = on_links.and_then(|on_links| carried(&on_links(searched)).tree);
    if let Some(speed) = carried {
        let trees = all.iter_mut().filter(|it| it.kind == GraphKind::Tree);
        trees.for_each(|it| (it.bw_intra, it.bw_inter) = (speed, speed));
    }
    let file = file(searched, &all).or_else(|_| file(searched, rings))?;
    Ok(ReplannedJob {
        planned: with_file(job, &planned.settings, &file)?,
        file,
    })
}

pub(super) fn with_graphs(
    (job, planned): (&Job, &Planned),
    graphs: &[Graph],
) -> Result<Planned, Error> {
    with_file(job, &planned.settings, &file(planned, graphs)?)
}

/// A graph file of these graphs only.
fn file(planned: &Planned, graphs: &[Graph]) -> Result<String, plan::Error> {
    let gpus = planned.node(0).view.gpu_addresses();
    nccl_graph::write_for_hosts(graphs, &gpus)
}

fn with_file(job: &Job, settings: &Settings, file: &str) -> Result<Planned, Error> {
    let mut settings = settings.clone();
    settings.graphs = Some(GraphFile::parse(FILE, file)?);
    planner::plan(job, &settings)
}

/// The rings as chains, which are trees of NCCL's inside a host.
fn chains_of(planned: &Planned, search: &RingSearch, speed: f32) -> Option<Graph> {
    let trees = planned.node(0).graph(GraphKind::Tree)?;
    Some(Graph {
        kind: GraphKind::Tree,
        pattern: trees.pattern,
        bw_intra: speed,
        bw_inter: speed,
        ..search.graph.clone()
    })
}
