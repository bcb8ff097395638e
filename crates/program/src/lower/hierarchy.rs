//! The hosts of a job, and the rank of each that leads it in a channel.

use super::request::ProgramRequest;
use super::trees::Trees;
use crate::{Channels, Collective, Transfer};

/// The hosts of a job, and the leaders of their channels.
pub(super) struct Hierarchy {
    /// By rank.
    pub host_of: Vec<u32>,
    /// By host: its ranks.
    pub members: Vec<Vec<u32>>,
    /// By channel and host.
    pub leaders: Vec<Vec<u32>>,
    /// Rings and trees over hosts.
    pub between: Channels,
    pub trees: Trees,
    /// By channel and host: its place in the ring.
    positions: Vec<Vec<u32>>,
    /// Pieces of a window.
    pub pieces: u16,
}

impl Hierarchy {
    pub(super) fn of(request: &ProgramRequest<'_>) -> Self {
        let channels = request.channels;
        let host_of = channels.hosts().to_vec();
        let between = channels.between_hosts();
        let mut members = vec![Vec::new(); between.ranks() as usize];
        for (host, rank) in host_of.iter().zip(0..) {
            members[*host as usize].push(rank);
        }
        let mut leaders: Vec<Vec<u32>> = (0..channels.count())
            .map(|channel| leaders(channels, channel, &members))
            .collect();
        if request.collective.has_root() {
            for leaders in &mut leaders {
                leaders[host_of[request.root as usize] as usize] = request.root;
            }
        }
        let trees = Trees::of(&of_leaders(request, &between, &host_of));
        Self {
            positions: between.positions(),
            pieces: 1,
            host_of,
            members,
            leaders,
            between,
            trees,
        }
    }

    /// The other ranks of a rank's host, beginning with the one after it, so that not all leaders
    /// start with the same rank.
    pub(super) fn others(&self, rank: u32) -> impl Iterator<Item = u32> {
        let members = &self.members[self.host_of[rank as usize] as usize];
        let own = members.partition_point(|member| *member < rank);
        let after = members.iter().skip(own + 1);
        after.chain(members.iter().take(own)).copied()
    }

    /// A rank of a ring whose lanes are like this one's, as pairs of its neighbors and this one's;
    /// `None` if the hosts have different numbers of ranks.
    pub(super) fn likeness(&self, rank: u32, channel: u16) -> Option<(u32, Vec<(u32, u32)>)> {
        let count = self.members.first()?.len();
        if self.members.iter().any(|members| members.len() != count) {
            return None;
        }
        let leaders = &self.leaders[usize::from(channel)];
        let ring = &self.between.rings()[usize::from(channel)];
        let leader_at = |at: usize| leaders[ring[at % ring.len()] as usize];
        // The leader, those of the next and the previous host, and the other ranks of the host.
        let known = |at: usize| {
            let leader = leader_at(at);
            let near = [leader, leader_at(at + 1), leader_at(at + ring.len() - 1)];
            near.into_iter().chain(self.others(leader))
        };
        let host = self.host_of[rank as usize] as usize;
        let own = self.positions[usize::from(channel)][host] as usize;
        let pairs: Vec<(u32, u32)> = known(0).zip(known(own)).collect();
        let (like, _) = *pairs.iter().find(|(_, mine)| *mine == rank)?;
        Some((like, pairs))
    }
}

/// The leader of each host: the rank at which the channel's ring enters the host. If no ring
/// differs from another, the leaders of the channels are as far from each other as possible.
fn leaders(channels: &Channels, channel: u16, members: &[Vec<u32>]) -> Vec<u32> {
    let ring = &channels.rings()[usize::from(channel)];
    let differ = channels.rings().iter().any(|other| other != ring);
    let count = u64::from(channels.count());
    let distant = members.iter().map(|members| {
        let at = u64::from(channel) * members.len() as u64 / count;
        members[usize::try_from(at).unwrap_or(0)]
    });
    let mut leaders: Vec<u32> = distant.collect();
    let host_of = |rank: &u32| channels.hosts()[*rank as usize];
    if differ {
        // Backwards, so that the first entry of a host stays.
        let before = ring.iter().rev().skip(1).chain(ring.last());
        for (rank, before) in ring.iter().rev().zip(before) {
            if host_of(rank) != host_of(before) {
                leaders[host_of(rank) as usize] = *rank;
            }
        }
    }
    leaders
}

/// The common work of the leaders.
pub(super) fn of_leaders<'a>(
    request: &ProgramRequest<'_>,
    between: &'a Channels,
    host_of: &[u32],
) -> ProgramRequest<'a> {
    // The leader of a host with several ranks has their sum in its output, or sums of all blocks in
    // scratch memory.
    let in_place = match request.collective {
        Collective::AllReduce | Collective::Reduce => true,
        Collective::Broadcast => request.in_place,
        _ => false,
    };
    ProgramRequest {
        collective: request.collective,
        schedule: request.schedule,
        transfer: Transfer::Fifo,
        root: host_of[request.root as usize],
        in_place,
        channels: between,
    }
}
