//! The rounds in which ranks meet for point-to-point transfers.

use serde::Serialize;

use super::Expansion;

/// One round of the schedule of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Round {
    /// The rank that it sends to.
    pub send: u32,
    /// The rank that it receives from.
    pub receive: u32,
}

impl Expansion {
    /// The rank at a position of a group. Groups are numbered node by node, and their size divides
    /// every node.
    fn member_of_group(&self, group: u32, member: u32) -> Option<u32> {
        let (node, position) = self
            .layout
            .counted(group * self.common.p2p.group + member)?;
        self.layout.rank_by_position(node, position)
    }

    /// The group of a rank and its position in it.
    fn group_of(&self, rank: u32) -> Option<(u32, u32)> {
        let place = self.layout.rank(rank)?;
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
        let groups = self.layout.ranks() / size;
        let own = self.group_of(rank);
        let turns = if own.is_some() {
            groups.next_power_of_two()
        } else {
            0
        };
        let (group, member) = own.unwrap_or_default();
        let deltas = (0..turns).scan(0u32, move |delta, turn| {
            *delta = (delta.wrapping_add(turn)) & (turns - 1);
            Some(*delta)
        });
        deltas
            .filter(move |delta| *delta < groups)
            .flat_map(move |delta| {
                let to = ((u64::from(group) + u64::from(delta)) % u64::from(groups)) as u32;
                let from =
                    ((u64::from(group) + u64::from(groups - delta)) % u64::from(groups)) as u32;
                (0..size).filter_map(move |step| {
                    Some(Round {
                        send: self.member_of_group(to, (member + step) % size)?,
                        receive: self.member_of_group(from, (member + size - step) % size)?,
                    })
                })
            })
    }
}
