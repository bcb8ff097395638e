//! Expands a plan: the neighbors and connections of any rank, on every channel.
//!
//! An [`Expansion`] is as small as the plan. It computes the answer for a rank without looking at
//! the others. In reading order: [`chains`] (the parts of a node), [`rings`], [`trees`], [`nvls`],
//! [`collnet`], [`schedule`] (point to point), [`connections`], [`view`] (all of it for one rank).

pub mod chains;
pub mod collnet;
pub mod connections;
pub mod nvls;
pub mod rings;
pub mod schedule;
pub mod trees;
pub mod view;

pub use chains::{BrokenChannel, NodeParts};
pub use collnet::{Above, ChainPlace, DirectPlace};
pub use connections::RingEdge;
pub use nvls::NvlsPlace;
pub use rings::RingPlace;
pub use schedule::Round;
pub use trees::{TreeLinks, TreePlace, double_tree};
pub use view::{ChannelView, CollnetView, NvlsView, PeerLink, RankView, RingView, TreeView};

use crate::common::Common;
use crate::content::PlanContent;
use crate::error::Error;
use crate::forest::PlannedForest;
use crate::layout::{JobLayout, NodePlace, RankPlace};

/// Every rank's neighbors on every channel of a job, and how they are connected.
#[derive(Debug, Clone, PartialEq)]
pub struct Expansion {
    layout: JobLayout,
    /// For each machine its nodes.
    nodes: Vec<Vec<NodeParts>>,
    common: Common,
    forests: Vec<PlannedForest>,
}

impl Expansion {
    /// Creates the expansion from the parts of every node of every machine.
    pub const fn new(layout: JobLayout, nodes: Vec<Vec<NodeParts>>, common: Common) -> Self {
        Self {
            layout,
            nodes,
            common,
            forests: Vec::new(),
        }
    }

    /// Expands a plan with this common part and layout.
    ///
    /// # Errors
    /// A channel does not hold each GPU of its node once.
    pub(crate) fn of(
        plan: &PlanContent,
        common: &Common,
        layout: JobLayout,
    ) -> Result<Self, Error> {
        let searched = common.channels.searched;
        let mut nodes = Vec::with_capacity(plan.machines.len());
        for (index, machine) in plan.machines.iter().enumerate() {
            let groups = machine.groups.iter().enumerate();
            let parts = groups.map(|(group_index, group)| {
                let transports = group.transports.clone().unwrap_or_default();
                NodeParts::new(&group.graphs, searched, &machine.members(group), transports)
                    .map_err(|broken| {
                        Error::inconsistent(
                            format!("machines[{index}].groups[{group_index}]"),
                            broken.to_string(),
                        )
                    })
            });
            nodes.push(parts.collect::<Result<Vec<_>, _>>()?);
        }
        Ok(Self {
            forests: plan.forests.clone().unwrap_or_default(),
            ..Self::new(layout, nodes, common.clone())
        })
    }

    /// Where ranks and nodes are.
    pub const fn layout(&self) -> &JobLayout {
        &self.layout
    }

    /// The common part of all ranks.
    pub const fn common(&self) -> &Common {
        &self.common
    }

    /// The parts of the nodes of each machine.
    pub fn machines(&self) -> &[Vec<NodeParts>] {
        &self.nodes
    }

    /// The trees of collectives that have their own.
    pub fn forests(&self) -> &[PlannedForest] {
        &self.forests
    }

    /// Channels of collectives.
    pub const fn channels(&self) -> u32 {
        self.common.channels.count()
    }

    /// The parts of a node.
    ///
    /// # Panics
    /// The place is of another job.
    pub fn parts(&self, node: NodePlace) -> &NodeParts {
        &self.nodes[node.machine as usize][node.index as usize]
    }

    /// Where a rank is.
    ///
    /// # Errors
    /// The job has no such rank.
    pub fn place(&self, rank: u32) -> Result<RankPlace, Error> {
        self.layout.rank(rank).ok_or(Error::NoSuchRank {
            rank,
            ranks: self.layout.ranks(),
        })
    }
}
