//! The rounds in which ranks meet for point-to-point transfers.

use serde::Serialize;

use super::Expansion;
use crate::common::PeerOrder;

/// Peers that one batch of work serves.
const PEERS_PER_BATCH: u32 = 8;

/// One round of the schedule of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Round {
    /// The rank that it sends to.
    pub send: u32,
    /// The rank that it receives from.
    pub receive: u32,
}

impl Expansion {
    /// Whether all ranks are one group.
    fn is_one_group(&self) -> bool {
        self.common.p2p.group == self.layout.ranks()
    }

    /// The rank at a position of a group. Groups are numbered node by node, and their size divides
    /// every node.
    fn member_of_group(&self, group: u32, member: u32) -> Option<u32> {
        if self.is_one_group() {
            return Some(member);
        }
        let (node, position) = self
            .layout
            .counted(group * self.common.p2p.group + member)?;
        self.layout.rank_by_position(node, position)
    }

    /// The group of a rank and its position in it.
    fn group_of(&self, rank: u32) -> Option<(u32, u32)> {
        let place = self.layout.rank(rank)?;
        if self.is_one_group() {
            return Some((0, rank));
        }
        let counted = self.layout.ranks_before(place.node) + self.layout.position(place);
        let size = self.common.p2p.group;
        Some((counted / size, counted % size))
    }

    /// The rounds in which a rank meets all ranks, itself first; empty beyond the last rank.
    ///
    /// Distances between groups are triangular numbers modulo a power of two, which spreads traffic
    /// better than counting.
    pub fn schedule(&self, rank: u32) -> impl Iterator<Item = Round> + '_ {
        let size = self.common.p2p.group;
        let own = self.group_of(rank);
        let groups = own.map_or(0, |_| self.layout.ranks() / size);
        let (group, member) = own.unwrap_or_default();
        let order = self.common.p2p.order;
        distances(groups, PeerOrder::Triangular).flat_map(move |delta| {
            let to = ((u64::from(group) + u64::from(delta)) % u64::from(groups)) as u32;
            let from = ((u64::from(group) + u64::from(groups - delta)) % u64::from(groups)) as u32;
            distances(size, order).filter_map(move |step| {
                Some(Round {
                    send: self.member_of_group(to, (member + step) % size)?,
                    receive: self.member_of_group(from, (member + size - step) % size)?,
                })
            })
        })
    }

    /// The channel of a part of the transfers of a round.
    pub fn peer_channel(&self, round: u32, part: u32) -> u32 {
        let p2p = &self.common.p2p;
        let channels = p2p.channels.max(1);
        let base = if self.layout.nodes() > 1 {
            // One group of all ranks has the rounds of the largest node.
            let size = match self.is_one_group() {
                true => self.layout.sizes().max().unwrap_or(1),
                false => p2p.group,
            };
            round / size * size.div_ceil(PEERS_PER_BATCH) + round % size / PEERS_PER_BATCH
        } else {
            round
        };
        let reversed = |number: u32| match channels.ilog2() {
            0 => 0,
            bits => (number % channels).reverse_bits() >> (32 - bits),
        };
        match p2p.order {
            PeerOrder::Counting => (reversed(base) + part) % channels,
            PeerOrder::Triangular => (base + reversed(part)) % channels,
        }
    }
}

/// The distances below a number, each once.
fn distances(number: u32, order: PeerOrder) -> impl Iterator<Item = u32> {
    let turns = u64::from(number.next_power_of_two());
    let distances = (0..turns).map(move |turn| match order {
        PeerOrder::Counting => turn as u32,
        PeerOrder::Triangular => (turn * (turn + 1) / 2 % turns) as u32,
    });
    distances.filter(move |distance| *distance < number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_distance_comes_once() {
        for order in [PeerOrder::Counting, PeerOrder::Triangular] {
            for number in 0..40 {
                let mut all: Vec<u32> = distances(number, order).collect();
                all.sort_unstable();
                assert!(all.into_iter().eq(0..number), "{order:?}, {number}");
            }
        }
        let eight = distances(8, PeerOrder::Triangular);
        assert!(eight.eq([0, 1, 3, 6, 2, 7, 5, 4]));
    }
}
