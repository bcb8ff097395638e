//! Point-to-point transfers: channels, chunk sizes, and the rounds in which ranks meet.

use topology::CpuArch;

use super::summary::Facts;
use super::{Buffers, Joined};
use crate::cluster::{Layout, NodePlace};
use crate::settings::{ConnectSettings, MAX_CHANNELS};

/// Peers that one batch of work serves.
const PEERS_PER_BATCH: u32 = 8;

/// Chunks in a connection's buffer.
const STEPS: i64 = 8;

/// First compute capability (× 10) whose Arm hosts have few GPUs each, so that chunks are doubled.
const GRACE_SM: i32 = 100;

/// Channels, chunks and groups of point-to-point transfers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct P2pChannels {
    /// Channels, a power of two.
    pub channels: u32,
    /// Channels between one pair of ranks, a power of two.
    pub per_peer: u32,
    /// Chunk, bytes.
    pub chunk_size: i64,
    /// Ranks of one node that take part in a round together.
    pub group: u32,
    /// For each run of equal islands the groups before it.
    first_group: Vec<u32>,
    /// For each machine the groups before each of its nodes, and at the end all.
    groups: Vec<Vec<u32>>,
}

impl P2pChannels {
    pub(super) fn new(
        facts: &Facts,
        layout: &Layout,
        channels: u32,
        buffers: Buffers,
        settings: &ConnectSettings,
    ) -> Self {
        let nodes = layout.nodes();
        let room = settings.channels_in_arguments().max(1);
        let most = settings.max_p2p_channels.clamp(1, i64::from(MAX_CHANNELS)) as u32;
        let least = settings.min_p2p_channels.clamp(1, i64::from(MAX_CHANNELS)) as u32;
        let total = channels
            .min(most)
            .max(least)
            .next_power_of_two()
            .min(1 << room.ilog2());
        let mut per_peer = facts.p2p_parts.min(1 << 30).next_power_of_two();
        let ranks = layout.ranks();
        let peers = settings
            .p2p_max_peers
            .map_or(ranks, |peers| peers.min(i64::from(ranks)) as u32);
        if nodes > 1 && settings.channels_per_net_peer.is_none() {
            let batches = u64::from(peers.div_ceil(PEERS_PER_BATCH));
            while u64::from(per_peer) * batches > u64::from(total) && per_peer > 1 {
                per_peer /= 2;
            }
        } else {
            per_peer = per_peer.min(total);
        }
        let wanted = if nodes > 1 {
            let doubled = facts.cpu_arch == Some(CpuArch::Arm) && facts.sm_min >= GRACE_SM;
            settings
                .p2p_net_chunk_size
                .saturating_mul(if doubled { 2 } else { 1 })
        } else if facts.all_nvlink {
            settings.p2p_nvl_chunk_size
        } else {
            settings.p2p_pci_chunk_size
        };
        let chunk_size = if wanted.saturating_mul(STEPS) > buffers.simple {
            buffers.simple / STEPS
        } else {
            wanted
        };
        let group = group_size(facts, layout, settings);
        let groups: Vec<Vec<u32>> = (0..layout.machines())
            .map(|machine| {
                let mut before = vec![0];
                for size in layout.machine_sizes(machine) {
                    before.push(before[before.len() - 1] + size / group);
                }
                before
            })
            .collect();
        let mut next = 0;
        let first_group = layout
            .runs()
            .map(|(machine, islands, _)| {
                let first = next;
                next += islands * groups[machine as usize].last().copied().unwrap_or(0);
                first
            })
            .collect();
        Self {
            channels: total,
            per_peer,
            chunk_size,
            group,
            first_group,
            groups,
        }
    }

    /// The first channel of a round's transfers.
    pub fn base_channel(&self, round: u32, nodes: u32) -> u32 {
        let base = if nodes > 1 {
            round / self.group * self.group.div_ceil(PEERS_PER_BATCH)
                + round % self.group / PEERS_PER_BATCH
        } else {
            round
        };
        match self.channels.ilog2() {
            0 => 0,
            bits => (base % self.channels).reverse_bits() >> (32 - bits),
        }
    }
}

/// The largest size not above the wanted one that divides every node.
fn group_size(facts: &Facts, layout: &Layout, settings: &ConnectSettings) -> u32 {
    let wanted = if layout.nodes() > 1 {
        u32::try_from(settings.p2p_schedule_group_size).unwrap_or(u32::MAX)
    } else {
        facts.max_local_ranks
    };
    layout.sizes().fold(wanted, gcd).max(1)
}

const fn gcd(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// One round of the schedule of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Round {
    /// The rank that it sends to.
    pub send: u32,
    /// The rank that it receives from.
    pub receive: u32,
}

impl Joined {
    fn node_of_group(&self, group: u32) -> Option<(NodePlace, u32)> {
        let run = self
            .p2p
            .first_group
            .partition_point(|first| *first <= group)
            .checked_sub(1)?;
        let (machine, first_node) = self.layout().run(run as u32);
        let groups = &self.p2p.groups[machine as usize];
        let per_island = *groups.last()?;
        let offset = group - self.p2p.first_group[run];
        let (island, within) = (offset / per_island, offset % per_island);
        let index = groups.partition_point(|before| *before <= within) - 1;
        let node = self
            .layout()
            .node(first_node + island * (groups.len() as u32 - 1) + index as u32)?;
        Some((node, within - groups[index]))
    }

    fn member_of_group(&self, group: u32, member: u32) -> Option<u32> {
        let (node, within) = self.node_of_group(group)?;
        let local = self
            .layout()
            .members(node)
            .get((within * self.p2p.group + member) as usize)?;
        Some(node.first_rank + local)
    }

    /// The group of a rank and its place in it.
    fn group_of(&self, rank: u32) -> Option<(u32, u32)> {
        let place = self.layout().rank(rank)?;
        let run = place.node.run;
        let (machine, first_node) = self.layout().run(run);
        let groups = &self.p2p.groups[machine as usize];
        let island = (place.node.node - first_node) / (groups.len() as u32 - 1);
        let first = self.p2p.first_group[run as usize]
            + island * groups.last()?
            + groups[place.node.index as usize];
        Some((
            first + place.position / self.p2p.group,
            place.position % self.p2p.group,
        ))
    }

    /// The rounds in which a rank meets all ranks, itself first. Empty beyond the last rank.
    ///
    /// Distances between groups are triangular numbers modulo a power of two, which spreads traffic better than counting.
    pub fn schedule(&self, rank: u32) -> impl Iterator<Item = Round> + '_ {
        let size = self.p2p.group;
        let groups = self.layout().ranks() / size;
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
