//! Hierarchical algorithms: one rank of each host and channel, the leader, reads and writes the
//! buffers of the host's ranks, and the leaders run an algorithm through FIFOs, as if each host
//! were one rank.
//!
//! The network carries each byte once per host, and each rank but the leaders only says that its
//! buffers may be accessed, and waits. Where each rank has blocks of its own, one block of the
//! algorithm between hosts is replaced by the blocks of all ranks of a host.

use super::direct::{Touch, inputs, of_rank};
use super::hierarchy::{Hierarchy, of_leaders};
use super::part;
use super::place::{ChannelLanes, ChannelMember};
use super::placed_forest::PlacedForest;
use super::request::ProgramRequest;
use super::write::{Fold, spread};
use crate::{BufferKind, Collective, ConnectionEnd, Operand, Pieces, Step};

/// Blocks of a host that hierarchical programs send before they receive the next ones. FIFOs need
/// as many slots.
pub const BLOCKS_TOGETHER: u32 = 4;

pub(super) fn hierarchical(place: &ChannelMember<'_>, hierarchy: &Hierarchy) -> ChannelLanes {
    let host = hierarchy.host_of[place.rank as usize];
    let leaders = &hierarchy.leaders[usize::from(place.channel)];
    let leader = leaders[host as usize];
    if place.rank != leader {
        let touch = Touch {
            by: vec![leader],
            of: Vec::new(),
        };
        let lane = touch.lane(place, Vec::new());
        // As many pieces as the leaders have.
        return ChannelLanes::new(hierarchy.pieces.into(), vec![lane]);
    }
    let written = between(place.request, hierarchy, host, place.channel);
    let inside = Inside {
        place,
        hierarchy,
        leaders,
        members: &hierarchy.members[host as usize],
        all: Pieces {
            first: 0,
            count: written.pieces,
        },
    };
    let touch = Touch {
        by: Vec::new(),
        of: hierarchy.others(leader).collect(),
    };
    let bodies = written.lanes.iter().map(|lane| inside.body(&lane.body));
    let mut lanes: Vec<_> = bodies.map(|body| place.lane(body)).collect();
    // Only the first lane reads inputs, and only the last one completes outputs.
    if let Some(first) = lanes.first_mut() {
        first.prologue = touch.begin(place);
        first.body.splice(0..0, inside.before());
    }
    if let Some(last) = lanes.last_mut() {
        last.body.extend(inside.after());
        last.epilogue = touch.end(place);
    }
    let copies = written.scratch_blocks * inside.copies();
    ChannelLanes::with_scratch(written.pieces.into(), inside.sums() + copies, lanes)
}

/// Pieces of a window.
pub(super) fn pieces(request: &ProgramRequest<'_>, hierarchy: &Hierarchy) -> u16 {
    between(request, hierarchy, 0, 0).pieces
}

/// The lanes of a host in a channel, as if each host were one rank.
fn between(
    request: &ProgramRequest<'_>,
    hierarchy: &Hierarchy,
    host: u32,
    channel: u16,
) -> ChannelLanes {
    part(&ChannelMember {
        request: &of_leaders(request, &hierarchy.between, &hierarchy.host_of),
        rank: host,
        channel,
        trees: &hierarchy.trees,
        forest: &PlacedForest::default(),
        hierarchy: None,
        registered: false,
    })
}

/// The work of a leader on its host.
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
        self.hierarchy.others(self.place.rank)
    }

    /// The rank of a host with a number.
    fn member(&self, host: u32, number: u32) -> u32 {
        self.hierarchy.members[host as usize][number as usize]
    }

    /// Blocks of ranks that replace a block between hosts.
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
    /// A step is repeated for all blocks that replace its block. The algorithms send a block before
    /// they receive the next one, so a few blocks at a time fit in the FIFOs' slots.
    fn body(&self, steps: &[Step]) -> Vec<Step> {
        let copies: Vec<u32> = (0..self.copies()).collect();
        let all = copies.chunks(BLOCKS_TOGETHER as usize).flat_map(|copies| {
            let step = |step| copies.iter().filter_map(move |copy| self.copy(step, *copy));
            steps.iter().flat_map(step)
        });
        all.collect()
    }

    /// The step for one of the blocks that replace its block.
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
