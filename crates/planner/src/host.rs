//! All graphs of one host.

use plan::{Graph, GraphKind, Pattern, Trail};
use topology::{NodeType, System, Warning};

use crate::error::Error;
use crate::request::Request;
use crate::search::{Searcher, Wanted};
use crate::view::{View, number_ranks};

/// Most channels that are searched for rings.
const MAX_RING_CHANNELS: usize = 32;

/// Most channels of graphs whose channels are heads.
const MAX_HEAD_CHANNELS: usize = 64;

/// What one rank decides on its own, before it hears of the others.
#[derive(Debug, Clone)]
pub struct HostPlan {
    /// The machine as the rank sees it.
    pub view: View,
    /// Graphs in search order; those that were not searched have no channels.
    pub graphs: Vec<Graph>,
    /// How each search went, in the same order.
    pub trails: Vec<Trail>,
    /// What was odd about the graph file, if there was one.
    pub warnings: Vec<Warning>,
}

impl HostPlan {
    /// A graph by kind.
    pub fn graph(&self, kind: GraphKind) -> Option<&Graph> {
        self.graphs.iter().find(|graph| graph.kind == kind)
    }
}

/// Plans one machine of a job as its first rank sees it.
///
/// # Errors
/// NCCL refuses the machine too.
pub fn plan_host(system: System, request: &Request) -> Result<HostPlan, Error> {
    search(view(system, request)?, request)
}

/// Plans one machine of a job as each of its ranks sees it. Ranks that reach each other without the network see the same;
/// the plans stand in the order of their lowest ranks, which count from 0. `ranks` is the number of ranks in the job.
///
/// # Errors
/// NCCL refuses the machine too.
pub fn plan_views(system: System, request: &Request, ranks: usize) -> Result<Vec<HostPlan>, Error> {
    let views = View::all(prepared(system, request), request, ranks)?;
    views
        .into_iter()
        .map(|view| search(view, request))
        .collect()
}

/// The system with its ranks numbered from 0 and the job's network.
fn prepared(mut system: System, request: &Request) -> System {
    number_ranks(&mut system, 0);
    if collnet_enabled(request) {
        system.enable_collnet();
    }
    system
}

/// The machine as its first rank sees it, with paths.
///
/// # Errors
/// Paths cannot be computed.
pub fn view(system: System, request: &Request) -> Result<View, Error> {
    let system = prepared(system, request);
    let ranks = system.count(NodeType::Gpu)
        * if request.nvlink_domain {
            1
        } else {
            request.hosts as usize
        };
    View::new(system, request, 0, ranks)
}

/// Searches all graphs that the job can use.
///
/// # Errors
/// NCCL refuses the machine too.
pub fn search(view: View, request: &Request) -> Result<HostPlan, Error> {
    let (graphs, trails, warnings) = search_all(&view, request)?;
    Ok(HostPlan {
        view,
        graphs,
        trails,
        warnings,
    })
}

#[allow(clippy::type_complexity, reason = "the parts of a HostPlan")]
fn search_all(
    view: &View,
    request: &Request,
) -> Result<(Vec<Graph>, Vec<Trail>, Vec<Warning>), Error> {
    let mut searcher = Searcher::new(view);
    let mut found = Vec::new();
    let mut ring_channels = 0;
    for kind in GraphKind::IN_SEARCH_ORDER {
        let wanted = match kind {
            GraphKind::Ring => wanted(kind, Pattern::Ring, false, 1, MAX_RING_CHANNELS),
            GraphKind::Tree => wanted(
                kind,
                Pattern::BalancedTree,
                false,
                ring_channels,
                ring_channels,
            ),
            GraphKind::CollnetChain => {
                wanted(kind, Pattern::Tree, true, ring_channels, ring_channels)
            }
            GraphKind::CollnetDirect => {
                wanted(kind, Pattern::CollnetDirect, true, 1, MAX_HEAD_CHANNELS)
            }
            GraphKind::Nvls => wanted(kind, Pattern::Nvls, false, 1, MAX_HEAD_CHANNELS),
        };
        let searched = match kind {
            GraphKind::Ring | GraphKind::Tree => true,
            GraphKind::CollnetChain | GraphKind::CollnetDirect => collnet_enabled(request),
            GraphKind::Nvls => nvls_supported(view, request),
        };
        if searched {
            let (graph, trail) = searcher.search(wanted)?;
            if kind == GraphKind::Ring {
                ring_channels = graph.channels.len();
            }
            found.push((graph, trail));
        }
    }
    let warnings = searcher.into_warnings();
    let (graphs, trails) = found.into_iter().unzip();
    Ok((graphs, trails, warnings))
}

const fn wanted(
    kind: GraphKind,
    pattern: Pattern,
    collnet: bool,
    min: usize,
    max: usize,
) -> Wanted {
    Wanted {
        kind,
        pattern,
        collnet,
        min_channels: min,
        max_channels: max,
    }
}

pub(crate) fn collnet_enabled(request: &Request) -> bool {
    request.collnet && request.settings.collnet_enable != Some(false)
}

/// Whether the devices can multicast through an NVSwitch.
fn nvls_supported(view: &View, request: &Request) -> bool {
    let system = view.system();
    request.settings.nvls_enable != 0
        && system.count(NodeType::Gpu) >= 2
        && (request.settings.nvls_enable == 1
            || system.count(NodeType::Nvs) > 0 && system.devs().all(|(_, dev)| dev.sm >= 90))
}
