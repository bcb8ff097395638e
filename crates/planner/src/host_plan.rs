//! All graphs of one node.

use plan::{Graph, GraphKind, Pattern, Trail};
use topology::{NodeType, Warning};

use crate::error::Error;
use crate::search::{Searcher, WantedGraph};
use crate::view::View;

/// Most channels that are searched for rings.
const MAX_RING_CHANNELS: usize = 32;

/// Most channels of graphs whose channels are heads.
const MAX_HEAD_CHANNELS: usize = 64;

/// The decisions of one rank by itself, before ranks exchange anything.
#[derive(Debug, Clone)]
pub struct HostPlan {
    /// The machine as the rank sees it.
    pub view: View,
    /// Graphs in search order; those that were not searched have no channels.
    pub graphs: Vec<Graph>,
    /// How each search went, in the same order.
    pub trails: Vec<Trail>,
    /// Oddities of the graph file, if there was one.
    pub warnings: Vec<Warning>,
}

impl HostPlan {
    /// Searches all graphs that the job can use.
    ///
    /// # Errors
    /// NCCL refuses the machine too.
    pub fn search(view: View) -> Result<Self, Error> {
        let mut searcher = Searcher::new(&view);
        let (mut graphs, mut trails): (Vec<Graph>, Vec<Trail>) = Default::default();
        let mut ring_channels = 0;
        for kind in GraphKind::IN_SEARCH_ORDER {
            let searched = match kind {
                GraphKind::Ring | GraphKind::Tree => true,
                GraphKind::CollnetChain | GraphKind::CollnetDirect => view.collnet,
                GraphKind::Nvls => nvls_supported(&view),
            };
            if searched {
                let (graph, trail) = searcher.search(wanted(kind, ring_channels))?;
                if kind == GraphKind::Ring {
                    ring_channels = graph.channels.len();
                }
                graphs.push(graph);
                trails.push(trail);
            }
        }
        let warnings = searcher.into_warnings();
        Ok(Self {
            view,
            graphs,
            trails,
            warnings,
        })
    }

    /// A graph by kind.
    pub fn graph(&self, kind: GraphKind) -> Option<&Graph> {
        self.graphs.iter().find(|graph| graph.kind == kind)
    }

    /// The ranks of the node, ascending.
    pub(crate) fn ranks(&self) -> Vec<u32> {
        let system = self.view.system();
        let mut ranks: Vec<u32> = system.gpus().map(|(_, gpu)| gpu.rank as u32).collect();
        ranks.sort_unstable();
        ranks
    }
}

/// The request for a kind of graph, once rings have so many channels.
const fn wanted(kind: GraphKind, rings: usize) -> WantedGraph {
    let (pattern, collnet, min_channels, max_channels) = match kind {
        GraphKind::Ring => (Pattern::Ring, false, 1, MAX_RING_CHANNELS),
        GraphKind::Tree => (Pattern::BalancedTree, false, rings, rings),
        GraphKind::CollnetChain => (Pattern::Tree, true, rings, rings),
        GraphKind::CollnetDirect => (Pattern::CollnetDirect, true, 1, MAX_HEAD_CHANNELS),
        GraphKind::Nvls => (Pattern::Nvls, false, 1, MAX_HEAD_CHANNELS),
    };
    WantedGraph {
        kind,
        pattern,
        collnet,
        min_channels,
        max_channels,
    }
}

/// Whether the devices can multicast through an NVSwitch.
fn nvls_supported(view: &View) -> bool {
    let (system, settings) = (view.system(), view.routing().settings());
    settings.nvls_enable != 0
        && system.count(NodeType::Gpu) >= if settings.rules.pairs_nvls { 2 } else { 3 }
        && (settings.nvls_enable == 1
            || system.count(NodeType::Nvs) > 0 && system.devs().all(|(_, dev)| dev.sm >= 90))
}
