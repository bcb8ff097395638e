//! Rings over all nodes: each node's chain of GPUs, one node after the other.

use serde::Serialize;

use super::Expansion;
use crate::layout::{NodePlace, RankPlace};

/// A rank's place in a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RingPlace {
    /// The rank that sends to it.
    pub previous: u32,
    /// The rank that it sends to.
    pub next: u32,
    /// The number of ranks before it if the ring begins at rank 0.
    pub index: u32,
}

impl Expansion {
    /// The searched channel whose chain a node uses. Rings that cross NICs in pairs alternate from
    /// node to node, so that a ring leaves one node and enters the next on the same rail.
    pub(super) fn ring_channel(&self, node: NodePlace, searched: u32) -> u32 {
        if self.common.swaps_rings(self.parts(node).ring.cross_nic)
            && self.common.channels.searched.is_multiple_of(2)
            && node.node % 2 == 1
        {
            searched ^ 1
        } else {
            searched
        }
    }

    /// A node's GPUs in the order of a ring, counted from the domain's first rank.
    pub(super) fn ring_chain(&self, node: NodePlace, searched: u32) -> &[u32] {
        self.parts(node)
            .ring
            .order(self.ring_channel(node, searched))
    }

    /// A rank's neighbors in the ring of a channel; `None` beyond the last rank or channel.
    pub fn ring_place(&self, rank: u32, channel: u32) -> Option<RingPlace> {
        let searched = self.common.channels.base(channel)?.searched;
        let place = self.layout.rank(rank)?;
        let start = self.ring_position(self.layout.rank(0)?, searched);
        let chain = self.ring_chain(place.node, searched);
        let at =
            (self.ring_position(place, searched) - self.layout.ranks_before(place.node)) as usize;
        let nodes = self.layout.nodes();
        let neighbor = |node: u32, last: bool| {
            let node = self.layout.node(node)?;
            let chain = self.ring_chain(node, searched);
            let end = if last { chain.last() } else { chain.first() };
            end.map(|local| self.layout.rank_at(node, *local))
        };
        let own = |at: usize| {
            chain
                .get(at)
                .map(|local| self.layout.rank_at(place.node, *local))
        };
        let previous = match at.checked_sub(1) {
            Some(before) => own(before)?,
            None => neighbor((place.node.node + nodes - 1) % nodes, true)?,
        };
        let next = match own(at + 1) {
            Some(next) => next,
            None => neighbor((place.node.node + 1) % nodes, false)?,
        };
        let ranks = self.layout.ranks();
        let index = (u64::from(self.ring_position(place, searched)) + u64::from(ranks - start))
            % u64::from(ranks);
        Some(RingPlace {
            previous,
            next,
            index: index as u32,
        })
    }

    /// A rank's position in a ring that begins with the first GPU of node 0's chain.
    fn ring_position(&self, place: RankPlace, searched: u32) -> u32 {
        let within = self
            .parts(place.node)
            .ring
            .position(self.ring_channel(place.node, searched), place.member);
        self.layout.ranks_before(place.node) + within
    }

    /// The ranks of a channel in ring order, beginning at rank 0. Empty beyond the last channel.
    pub fn ring(&self, channel: u32) -> impl Iterator<Item = u32> + '_ {
        let base = self.common.channels.base(channel);
        let start = base
            .and_then(|base| Some(self.ring_position(self.layout.rank(0)?, base.searched) as usize))
            .unwrap_or(0);
        // Rank 0 is in node 0; the ranks before it in that node's chain come last.
        let walk = move |nodes: std::ops::Range<u32>| {
            nodes.filter_map(move |node| {
                let node = self.layout.node(node)?;
                Some(
                    self.ring_chain(node, base?.searched)
                        .iter()
                        .map(move |local| self.layout.rank_at(node, *local)),
                )
            })
        };
        let nodes = if base.is_some() {
            self.layout.nodes()
        } else {
            0
        };
        walk(0..nodes)
            .flatten()
            .skip(start)
            .chain(walk(0..nodes.min(1)).flatten().take(start))
    }
}
