//! The rings, trees and transfer channels over which programs are written.

use std::collections::BTreeSet;

use program::{Channels, ChannelsError, Tree};

use crate::error::Error;
use crate::expand::Expansion;
use crate::layout::NodePlace;

/// Limits of a transfer's part between nodes: at least a chunk divided by the first number, at most
/// a chunk times the second.
const PART_BETWEEN_NODES: (u64, u64) = (2, 1);

/// Limits of a transfer's part in one node.
const PART_IN_NODE: (u64, u64) = (8, 32);

impl Expansion {
    /// The rings and trees of all channels, over which programs are written.
    ///
    /// # Errors
    /// The plan has more ranks than programs are written for, or its channels do not join them.
    pub fn program_channels(&self) -> Result<Channels, ChannelsError> {
        let ranks = self.layout().ranks();
        if ranks > Channels::MOST_RANKS {
            return Err(ChannelsError::Ranks { ranks });
        }
        let parent = |rank, channel| self.tree_place(rank, channel)?.up;
        let channels = 0..self.channels();
        let rings = channels.clone().map(|channel| self.ring(channel).collect());
        let trees = channels.map(|channel| Tree {
            parents: (0..ranks).map(|rank| parent(rank, channel)).collect(),
        });
        let nodes = (0..ranks).map(|rank| self.place(rank).map_or(0, |it| it.node.node));
        let nodes: Vec<u32> = nodes.collect();
        let channels = Channels::new(ranks, rings.collect(), trees.collect())?;
        self.forests()
            .iter()
            .try_fold(channels.on_hosts(&nodes)?, |channels, forest| {
                channels.with_forest(forest.program_forest(ranks)?)
            })
    }

    /// Channels between a rank of a node and any other, as the node's ranks count them.
    ///
    /// # Panics
    /// The place is of another job.
    pub fn per_peer(&self, node: NodePlace) -> u32 {
        let own = self.parts(node).transports().per_peer;
        own.unwrap_or(self.common().p2p.per_peer)
    }

    /// The channels of a rank's point-to-point connections to each other rank, in the order of the
    /// rounds in which they meet.
    ///
    /// # Errors
    /// The job has no such rank.
    pub fn peer_channels(&self, rank: u32) -> Result<Vec<(u32, BTreeSet<u32>)>, Error> {
        let per_peer = self.per_peer(self.place(rank)?.node);
        let rounds = (0..).zip(self.schedule(rank));
        let others = rounds.filter(|(_, round)| round.send != rank);
        let channels = others.map(|(number, round)| {
            let parts = (0..per_peer).map(|part| self.peer_channel(number, part));
            (round.send, parts.collect())
        });
        Ok(channels.collect())
    }

    /// The channels over which NCCL sends `bytes` from one rank to another, for a transfer by
    /// itself.
    ///
    /// # Errors
    /// The job has no such ranks.
    pub fn transfer_channels(&self, from: u32, to: u32, bytes: u64) -> Result<Vec<u16>, Error> {
        self.transfer_channels_in_steps(from, to, bytes, self.common().p2p.chunk_size)
    }

    /// The same for steps of this length in the buffer, bytes. Until NCCL 2.28 those of LL count
    /// for transfers that take LL.
    ///
    /// # Errors
    /// The job has no such ranks.
    pub fn transfer_channels_in_steps(
        &self,
        from: u32,
        to: u32,
        bytes: u64,
        step: i64,
    ) -> Result<Vec<u16>, Error> {
        let per_peer = self.per_peer(self.place(from)?.node);
        self.place(to)?;
        let p2p = &self.common().p2p;
        let nodes = self.layout().nodes();
        let round = (0..)
            .zip(self.schedule(from))
            .find(|(_, round)| round.send == to);
        let round = round.map_or(0, |(round, _)| round);
        let ranks = self.layout().ranks();
        let parts = parts(per_peer, p2p.channels, ranks, nodes, step, bytes);
        // At most as many parts as channels, and NCCL has at most 64 of these.
        let channel = |part: u32| u16::try_from(self.peer_channel(round, part)).unwrap_or(u16::MAX);
        Ok((0..parts.min(p2p.channels.max(1))).map(channel).collect())
    }
}

/// The number of parts of a transfer (NCCL's `addP2pToPlan`).
fn parts(per_peer: u32, channels: u32, ranks: u32, nodes: u32, chunk: i64, bytes: u64) -> u32 {
    let most = per_peer.max(1);
    let mut usual = most;
    while u64::from(usual) * u64::from(ranks) > u64::from(channels) && usual > 1 {
        usual /= 2;
    }
    if bytes == 0 {
        return 1;
    }
    let (divided, multiplied) = if nodes > 1 {
        PART_BETWEEN_NODES
    } else {
        PART_IN_NODE
    };
    let chunk = u64::try_from(chunk).unwrap_or(0).max(1);
    let least = (chunk / divided).max(1);
    let longest = chunk.saturating_mul(multiplied);
    let wanted = bytes.div_ceil(least);
    let mut parts = u32::try_from(wanted).unwrap_or(u32::MAX).min(usual);
    let mut part = least.max(bytes.div_ceil(parts.into()));
    while part > longest && parts <= most / 2 {
        parts *= 2;
        part = bytes.div_ceil(parts.into());
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_transfer() {
        // One node of 8 ranks, 32 channels, chunks of 512 KiB: a pair normally uses 4 channels.
        let in_node = |bytes| parts(32, 32, 8, 1, 512 << 10, bytes);
        assert_eq!(in_node(0), 1);
        assert_eq!(in_node(64 << 10), 1);
        assert_eq!(in_node((64 << 10) + 1), 2);
        assert_eq!(in_node(16 << 20), 4);
        // Parts are at most 32 chunks: 16 MiB.
        assert_eq!(in_node(64 << 20), 4);
        assert_eq!(in_node((64 << 20) + 1), 8);
        assert_eq!(in_node(1 << 40), 32);
        // Two nodes: parts between half a chunk and one.
        assert_eq!(parts(2, 16, 16, 2, 128 << 10, 64 << 10), 1);
        assert_eq!(parts(2, 16, 16, 2, 128 << 10, 256 << 10), 2);
    }
}
