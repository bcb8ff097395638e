//! Networks that reduce (CollNet, SHARP): chains towards the network, and heads that collect for
//! it.

use crate::JsonSchema;
use serde::Serialize;

use super::Expansion;
use crate::graph::GraphKind;
use crate::layout::NodePlace;

/// Most ranks of a node for which heads collect directly.
const MAX_DIRECT_RANKS: u32 = 8;

/// A neighbor in a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Above {
    /// The network.
    Network,
    /// A rank of the same node.
    Rank(u32),
}

/// A rank's place in the chain of one channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ChainPlace {
    /// Towards the network; `None` if the rank is in no chain.
    pub up: Option<Above>,
    /// Away from it.
    pub down: Option<u32>,
}

/// A rank's place in CollNetDirect, where heads collect for the network; equal in all channels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DirectPlace {
    /// Which head the rank is.
    pub head: Option<u32>,
    /// The heads of the rank's node, beginning with the rank's own.
    pub heads: Vec<u32>,
    /// The other heads.
    pub up: Vec<u32>,
    /// The ranks that a head collects from.
    pub down: Vec<u32>,
    /// The head that is served first. It differs between ranks, to spread the load.
    pub shift: u32,
    /// Levels of the tree.
    pub depth: u32,
}

impl Expansion {
    /// A rank's place in the chain of a channel; `None` if the network does not reduce, or beyond
    /// the last rank or channel.
    pub fn chain_place(&self, rank: u32, channel: u32) -> Option<ChainPlace> {
        if !self.common.collnet {
            return None;
        }
        let searched = self.common.channels.base(channel)?.searched;
        let place = self.layout.rank(rank)?;
        let chains = &self.parts(place.node).collnet_chain;
        let chain = chains.order(searched);
        if chain.is_empty() {
            return Some(ChainPlace {
                up: None,
                down: None,
            });
        }
        let at = chains.position(searched, place.member) as usize;
        let own = |at: usize| {
            chain
                .get(at)
                .map(|local| self.layout.rank_at(place.node, *local))
        };
        let up = at
            .checked_sub(1)
            .map_or(Some(Above::Network), |at| own(at).map(Above::Rank));
        Some(ChainPlace {
            up,
            down: own(at + 1),
        })
    }

    /// Distinct first GPUs of a node's collnet-direct channels.
    fn direct_heads(&self, node: NodePlace) -> Vec<u32> {
        let chains = &self.parts(node).collnet_direct;
        let mut heads = Vec::new();
        for channel in 0..self.common.graph_channels(GraphKind::CollnetDirect) {
            if let Some(head) = chains.order(channel).first()
                && !heads.contains(head)
            {
                heads.push(*head);
            }
        }
        heads
    }

    /// The ranks of a rank's node that talk to the reducing network: the heads of NVLink SHARP if
    /// the job has it, otherwise those of CollNetDirect. Empty if the network does not reduce.
    pub fn collnet_heads(&self, rank: u32) -> Vec<u32> {
        let Some(place) = self.layout.rank(rank).filter(|_| self.common.collnet) else {
            return Vec::new();
        };
        let heads = match self.common.nvls {
            Some(nvls) => self
                .parts(place.node)
                .nvls_heads
                .iter()
                .take(nvls.heads as usize)
                .copied()
                .collect(),
            None => self.direct_heads(place.node),
        };
        heads
            .into_iter()
            .map(|local| self.layout.rank_at(place.node, local))
            .collect()
    }

    /// Whether chains can be used: all of a node's begin at ranks that talk to the reducing
    /// network.
    pub fn chains_reach_network(&self, rank: u32) -> bool {
        let Some(place) = self.layout.rank(rank).filter(|_| self.common.collnet) else {
            return false;
        };
        let heads = self.collnet_heads(rank);
        let chains = &self.parts(place.node).collnet_chain;
        (0..self.common.graph_channels(GraphKind::CollnetChain)).all(|channel| {
            chains
                .order(channel)
                .first()
                .is_none_or(|local| heads.contains(&self.layout.rank_at(place.node, *local)))
        })
    }

    /// A rank's place in CollNetDirect; `None` if the network does not reduce, if nodes are too
    /// large, or beyond the last rank.
    pub fn direct_place(&self, rank: u32) -> Option<DirectPlace> {
        if !self.common.collnet || self.layout.sizes().max().unwrap_or(0) > MAX_DIRECT_RANKS {
            return None;
        }
        let place = self.layout.rank(rank)?;
        let heads = self.direct_heads(place.node);
        if heads.is_empty() {
            return None;
        }
        let global = |local: &u32| self.layout.rank_at(place.node, *local);
        let head = heads.iter().position(|head| *head == place.local);
        // NCCL takes the channel with the head's number, which is the head's own unless heads
        // repeat.
        let row = head.map_or(&[][..], |head| {
            self.parts(place.node).collnet_direct.order(head as u32)
        });
        let down: Vec<u32> = row
            .iter()
            .map(global)
            .filter(|other| *other != rank)
            .collect();
        let up: Vec<u32> = heads
            .iter()
            .map(global)
            .filter(|other| *other != rank)
            .collect();
        let mut rotated: Vec<u32> = heads.iter().map(global).collect();
        rotated.rotate_left(head.unwrap_or(0));
        let local_ranks = self.layout.members(place.node).len() as u32;
        Some(DirectPlace {
            head: head.map(|head| head as u32),
            shift: rank % local_ranks % heads.len() as u32,
            depth: if up.is_empty() && down.is_empty() {
                1
            } else {
                2
            },
            heads: rotated,
            up,
            down,
        })
    }
}
