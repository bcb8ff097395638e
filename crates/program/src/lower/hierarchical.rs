//! Hierarchical algorithms: one rank of each host and channel, the leader, reads and writes the
//! buffers of the host's ranks, and the leaders run an algorithm through FIFOs, as if each host were
//! one rank.
//!
//! The network carries each byte once per host, and each rank but the leaders only says that its
//! buffers may be accessed, and waits. Where each rank has blocks of its own, a block of the
//! algorithm between hosts stands for the blocks of a host's ranks.

use super::direct::{Touch, inputs, of_rank};
use super::part;
use super::place::{ChannelLanes, ChannelMember};
use super::request::ProgramRequest;
use super::trees::Trees;
use super::write::{Fold, spread};
use crate::{BufferKind, Channels, Collective, ConnectionEnd, Operand, Pieces, Step, Transfer};

/// Blocks of a host that are sent before the next ones are received. FIFOs need as many slots.
const TOGETHER: usize = 4;

/// The hosts of a job, and the leaders of their channels.
pub struct Hierarchy {
    /// By rank.
    host_of: Vec<u32>,
    /// By host: its ranks.
    members: Vec<Vec<u32>>,
    /// By channel and host.
    leaders: Vec<Vec<u32>>,
    /// Rings and trees over hosts.
    between: Channels,
    trees: Trees,
}

impl Hierarchy {
    pub fn of(request: &ProgramRequest<'_>) -> Self {
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
            host_of,
            members,
            leaders,
            between,
            trees,
        }
    }
}

/// The leader of each host: the rank at which the channel's ring enters the host. If no ring
/// differs from another, the leaders of the channels are as far from each other as possible.
fn leaders(channels: &Channels, channel: u16, members: &[Vec<u32>]) -> Vec<u32> {
    let ring = &channels.rings()[usize::from(channel)];
    let differ = channels.rings().iter().any(|other| other != ring);
    let host_of = channels.hosts();
    let enters = |host: u32| {
        let before = ring.iter().cycle().skip(ring.len() - 1);
        let mut links = before.zip(ring);
        let entry = links.find(|(before, rank)| {
            host_of[**rank as usize] == host && host_of[**before as usize] != host
        });
        entry.map(|(_, rank)| *rank)
    };
    let leaders = members.iter().zip(0..).map(|(members, host)| {
        let count = u64::from(channels.count());
        let spread = u64::from(channel) * members.len() as u64 / count;
        let spread = usize::try_from(spread).unwrap_or(0);
        let entry = differ.then(|| enters(host)).flatten();
        entry.unwrap_or(members[spread])
    });
    leaders.collect()
}

/// What the leaders do together.
fn of_leaders<'a>(
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

pub fn hierarchical(place: &ChannelMember<'_>, hierarchy: &Hierarchy) -> ChannelLanes {
    let host = hierarchy.host_of[place.rank as usize];
    let leaders = &hierarchy.leaders[usize::from(place.channel)];
    let leader = leaders[host as usize];
    let members = &hierarchy.members[host as usize];
    let between = of_leaders(place.request, &hierarchy.between, &hierarchy.host_of);
    let written = part(&ChannelMember {
        request: &between,
        rank: host,
        channel: place.channel,
        trees: &hierarchy.trees,
        hierarchy: None,
    });
    let inside = Inside {
        place,
        hierarchy,
        leaders,
        members,
        all: Pieces {
            first: 0,
            count: written.pieces,
        },
    };
    let copies = u32::from(written.scratch_blocks) * inside.copies();
    let scratch = inside.sums() + copies;
    let touch = Touch {
        by: (place.rank != leader)
            .then_some(leader)
            .into_iter()
            .collect(),
        of: match place.rank == leader {
            true => inside.others().collect(),
            false => Vec::new(),
        },
    };
    let mut lanes: Vec<_> = match place.rank == leader {
        true => written
            .lanes
            .into_iter()
            .map(|lane| inside.body(&lane.body))
            .collect(),
        false => vec![Vec::new()],
    };
    if place.rank == leader {
        // Only the first lane reads inputs, and only the last one completes outputs.
        if let Some(first) = lanes.first_mut() {
            first.splice(0..0, inside.before());
        }
        if let Some(last) = lanes.last_mut() {
            last.extend(inside.after());
        }
    }
    let mut lanes: Vec<_> = lanes.into_iter().map(|body| place.lane(body)).collect();
    if let Some(first) = lanes.first_mut() {
        first.prologue = touch.begin(place);
    }
    if let Some(last) = lanes.last_mut() {
        last.epilogue = touch.end(place);
    }
    ChannelLanes::with_scratch(written.pieces.into(), scratch, lanes)
}

/// What a leader does on its host.
struct Inside<'a> {
    place: &'a ChannelMember<'a>,
    hierarchy: &'a Hierarchy,
    leaders: &'a [u32],
    members: &'a [u32],
    all: Pieces,
}

impl Inside<'_> {
    fn collective(&self) -> Collective {
        self.place.request.collective
    }

    /// The ranks of the host without the leader.
    fn others(&self) -> impl Iterator<Item = u32> {
        let own = self.place.rank;
        self.members
            .iter()
            .copied()
            .filter(move |rank| *rank != own)
    }

    /// The rank of a host with a number.
    fn member(&self, host: u32, number: u32) -> u32 {
        self.hierarchy.members[host as usize][number as usize]
    }

    /// Blocks that a block between hosts stands for.
    fn copies(&self) -> u32 {
        let members = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        match self.collective() {
            Collective::AllGather | Collective::ReduceScatter => members,
            Collective::AllToAll => members * members,
            _ => 1,
        }
    }

    /// Scratch blocks that hold sums of the host's inputs.
    fn sums(&self) -> u32 {
        match self.collective() {
            _ if self.members.len() == 1 => 0,
            Collective::Reduce => 1,
            Collective::ReduceScatter => self.place.ranks(),
            _ => 0,
        }
    }

    /// Where the sum of the host's inputs is; of several blocks, that of `block`.
    fn sum(&self, block: u32) -> Operand {
        match self.collective() {
            _ if self.members.len() == 1 => Operand::input(block),
            Collective::ReduceScatter => Operand::scratch(block),
            Collective::Reduce if !self.place.is_root() => Operand::scratch(0),
            _ => Operand::output(0),
        }
    }

    /// Sums of the host's inputs.
    fn before(&self) -> Vec<Step> {
        if self.members.len() == 1 || !self.collective().reduces() {
            return Vec::new();
        }
        let blocks = match self.collective() {
            Collective::ReduceScatter => self.place.ranks(),
            _ => 1,
        };
        let folds = (0..blocks).flat_map(|block| {
            // The own input comes first, because partial sums overwrite it in place.
            let own = [self.place.rank].into_iter();
            let sum = self.sum(block);
            Fold {
                pieces: self.all,
                operands: &inputs(self.place, own.chain(self.others()), block),
                accumulator: sum,
                destinations: &[sum],
                finish: false,
                alike: false,
            }
            .steps()
        });
        folds.collect()
    }

    /// Copies of the result to the host's outputs.
    fn after(&self) -> Vec<Step> {
        let outputs = |block: u32| -> Vec<Operand> {
            let missing = self.others().filter(|rank| {
                let has_it = self.collective() == Collective::AllGather && *rank == block;
                !(self.place.in_place() && has_it)
            });
            missing
                .map(|rank| of_rank(self.place, rank, BufferKind::Output, block))
                .collect()
        };
        match self.collective() {
            Collective::Broadcast if self.place.is_root() => {
                spread(self.all, Operand::input(0), &outputs(0))
            }
            Collective::AllReduce | Collective::Broadcast => {
                spread(self.all, Operand::output(0), &outputs(0))
            }
            Collective::AllGather => (0..self.place.ranks())
                .flat_map(|block| spread(self.all, Operand::output(block), &outputs(block)))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// The steps between hosts, with the memory and the ranks of this job.
    ///
    /// A step is repeated for the blocks that its block stands for. The algorithms send a block
    /// before they receive the next one, so a few blocks at a time fit in the FIFOs' slots.
    fn body(&self, steps: &[Step]) -> Vec<Step> {
        let copies: Vec<u32> = (0..self.copies()).collect();
        let all = copies.chunks(TOGETHER).flat_map(|copies| {
            let step = |step| copies.iter().filter_map(move |copy| self.copy(step, *copy));
            steps.iter().flat_map(step)
        });
        all.collect()
    }

    /// The step for one of the blocks that its block stands for.
    fn copy(&self, step: &Step, copy: u32) -> Option<Step> {
        let of = |operands: &[Operand]| -> Vec<Operand> {
            operands.iter().map(|it| self.renamed(it, copy)).collect()
        };
        let sources = of(&step.sources);
        let mut destinations = of(&step.destinations);
        // In place, the own block is where it belongs.
        if self.place.in_place() && self.collective() == Collective::AllGather {
            let own = Operand::output(self.place.rank);
            let is_own = sources.contains(&Operand::input(0));
            destinations.retain(|it| !(is_own && *it == own));
        }
        let moves_nothing = destinations.is_empty() && !sources.is_empty();
        (!moves_nothing).then(|| Step {
            sources,
            destinations,
            ..step.clone()
        })
    }

    /// An operand of the algorithm between hosts, in this job.
    fn renamed(&self, operand: &Operand, copy: u32) -> Operand {
        let (buffer, block) = match *operand {
            Operand::Fifo(end) => {
                return Operand::Fifo(ConnectionEnd {
                    peer: self.leaders[end.peer as usize],
                    ..end
                });
            }
            Operand::Local { buffer, block } => (buffer, block),
            other => return other,
        };
        let host = self.hierarchy.host_of[self.place.rank as usize];
        let count = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        let here = |number: u32, buffer, block| {
            of_rank(self.place, self.member(host, number), buffer, block)
        };
        match (self.collective(), buffer) {
            (_, BufferKind::Scratch) => {
                Operand::scratch(self.sums() + block * self.copies() + copy)
            }
            (Collective::AllReduce | Collective::Reduce, BufferKind::Input) => self.sum(0),
            (Collective::ReduceScatter, BufferKind::Input) => self.sum(self.member(block, copy)),
            (Collective::ReduceScatter, BufferKind::Output)
            | (Collective::AllGather, BufferKind::Input) => here(copy, buffer, 0),
            (Collective::AllGather, BufferKind::Output) => {
                Operand::output(self.member(block, copy))
            }
            // The copies are for all pairs: of each rank that sends, one for each that receives.
            (Collective::AllToAll, BufferKind::Input) => {
                here(copy / count, buffer, self.member(block, copy % count))
            }
            (Collective::AllToAll, BufferKind::Output) => {
                here(copy % count, buffer, self.member(block, copy / count))
            }
            _ => *operand,
        }
    }
}
