//! The programs of single ranks, for jobs that are too large to hold all programs.

use super::hierarchical;
use super::hierarchy::Hierarchy;
use super::place::ChannelMember;
use super::placed_forest::PlacedForest;
use super::trees::Trees;
use super::{LowerError, ProgramRequest, check, fifo_pieces, part};
use crate::{Collective, ConnectionEnd, Lane, Program, Schedule, Transfer};

/// A checked request; writes the program of any rank.
pub struct Lowering<'a> {
    request: &'a ProgramRequest<'a>,
    /// Whether callers' buffers are at one place of all ranks' windows.
    registered: bool,
    trees: Trees,
    forest: PlacedForest,
    hierarchy: Option<Hierarchy>,
    /// For each channel the position of each rank in its ring; empty if the algorithm is no ring.
    positions: Vec<Vec<u32>>,
}

/// A rank whose lanes of a channel differ from another rank's only in the connections, blocks and
/// pieces that they name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Likeness {
    /// The other rank.
    pub like: u32,
    /// The other rank's connections, and in the same places this rank's.
    pub ends: Vec<(ConnectionEnd, ConnectionEnd)>,
}

impl<'a> Lowering<'a> {
    /// Checks a request.
    ///
    /// # Errors
    /// The algorithm does not serve the collective, the root is no rank, or this cannot be done in
    /// place.
    pub fn new(request: &'a ProgramRequest<'a>) -> Result<Self, LowerError> {
        check(request)?;
        let is_ring = request.schedule == Schedule::Ring && request.transfer == Transfer::Fifo;
        let is_hierarchical = request.transfer == Transfer::Hierarchical;
        let hierarchy = is_hierarchical.then(|| {
            let mut hierarchy = Hierarchy::of(request);
            hierarchy.pieces = hierarchical::pieces(request, &hierarchy);
            hierarchy
        });
        Ok(Self {
            request,
            registered: false,
            trees: Trees::of(request),
            forest: PlacedForest::of(request)?,
            hierarchy,
            positions: match is_ring {
                true => request.channels.positions(),
                false => Vec::new(),
            },
        })
    }

    /// The same for buffers at one place of all ranks' windows, which a multicast reaches.
    pub fn registered(self) -> Self {
        Self {
            registered: true,
            ..self
        }
    }

    /// Ranks of the communicator.
    pub const fn ranks(&self) -> u32 {
        self.request.channels.ranks()
    }

    /// Channels.
    pub fn channels(&self) -> u16 {
        let count = self.forest.channel_count();
        count.unwrap_or_else(|| self.request.channels.count())
    }

    /// The program of one rank. Its `fifo_pieces` and `scratch_blocks` are what it needs itself;
    /// before programs are bound, those of all ranks must be raised to the largest.
    pub fn program(&self, rank: u32) -> Program {
        let mut program = self.empty(rank);
        for channel in 0..self.channels() {
            self.extend(&mut program, channel);
        }
        program.fifo_pieces = fifo_pieces(&program);
        program
    }

    /// The program of one rank with the lanes of one channel only.
    pub fn of_channel(&self, rank: u32, channel: u16) -> Program {
        let mut program = self.empty(rank);
        self.extend(&mut program, channel);
        program.fifo_pieces = fifo_pieces(&program);
        program
    }

    /// A rank whose lanes of a channel are like this one's, if the algorithm promises one.
    ///
    /// Without a root, every rank of a ring does the same with other pieces or blocks. If all
    /// pieces have the same length, the lanes take the same time.
    pub fn likeness(&self, rank: u32, channel: u16) -> Option<Likeness> {
        if matches!(
            self.request.collective,
            Collective::Broadcast | Collective::Reduce
        ) {
            return None;
        }
        if let Some(hierarchy) = &self.hierarchy {
            let is_ring = self.request.schedule == Schedule::Ring;
            let alike = is_ring.then(|| hierarchy.likeness(rank, channel));
            let (like, pairs) = alike.flatten()?;
            let end = |peer| ConnectionEnd {
                peer,
                channel,
                port: 0,
            };
            let ends = pairs
                .into_iter()
                .map(|(theirs, own)| (end(theirs), end(own)));
            return Some(Likeness {
                like,
                ends: ends.collect(),
            });
        }
        let positions = self.positions.get(usize::from(channel))?;
        let ring = self.request.channels.rings().get(usize::from(channel))?;
        let neighbors = |rank: u32| {
            let (at, ranks) = (*positions.get(rank as usize)? as usize, ring.len());
            let end = |at: usize| ConnectionEnd {
                peer: ring[at % ranks],
                channel,
                port: 0,
            };
            Some([end(at + 1), end(at + ranks - 1)])
        };
        let like = *ring.first()?;
        let pairs = neighbors(like)?.into_iter().zip(neighbors(rank)?);
        Some(Likeness {
            like,
            ends: pairs.collect(),
        })
    }

    fn empty(&self, rank: u32) -> Program {
        let request = self.request;
        Program {
            collective: request.collective,
            schedule: request.schedule,
            ranks: self.ranks(),
            rank,
            root: request.root,
            in_place: request.in_place,
            channels: self.channels(),
            shares: self.forest.shares.clone(),
            pieces: 1,
            fifo_pieces: 0,
            scratch_blocks: 0,
            lanes: Vec::new(),
        }
    }

    fn extend(&self, program: &mut Program, channel: u16) {
        let part = part(&ChannelMember {
            request: self.request,
            rank: program.rank,
            channel,
            trees: &self.trees,
            forest: &self.forest,
            hierarchy: self.hierarchy.as_ref(),
            registered: self.registered,
        });
        program.pieces = part.pieces;
        program.scratch_blocks = program.scratch_blocks.max(part.scratch_blocks);
        // An empty lane would only be polled.
        let idle = |lane: &Lane| lane.steps().next().is_none();
        let busy = part.lanes.into_iter().filter(|lane| !idle(lane));
        program.lanes.extend(busy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Channels, Operand, Transfer, Tree};

    /// The step with other connections, blocks and pieces of the same number.
    fn renamed(lane: &Lane, likeness: &Likeness) -> Lane {
        let own = |end: &ConnectionEnd| {
            let mut pairs = likeness.ends.iter();
            let found = pairs.find(|(theirs, _)| theirs == end);
            found.map_or(*end, |(_, own)| *own)
        };
        let operand = |operand: &Operand| match operand {
            Operand::Fifo(end) => Operand::Fifo(own(end)),
            Operand::Local { buffer, .. } => Operand::local(*buffer, 0),
            Operand::Peer { rank, buffer, .. } => {
                let mut pairs = likeness.ends.iter();
                let found = pairs.find(|(theirs, _)| theirs.peer == *rank);
                let rank = found.map_or(*rank, |(_, own)| own.peer);
                Operand::peer(rank, *buffer, 0)
            }
            other => *other,
        };
        let mut lane = lane.clone();
        let steps = [&mut lane.prologue, &mut lane.body, &mut lane.epilogue];
        for step in steps.into_iter().flatten() {
            step.pieces.first = 0;
            step.waits = step.waits.iter().map(own).collect();
            step.notifies = step.notifies.iter().map(own).collect();
            step.sources = step.sources.iter().map(operand).collect();
            step.destinations = step.destinations.iter().map(operand).collect();
        }
        lane
    }

    #[test]
    fn ranks_of_a_ring_are_alike() {
        let cases = (2..10)
            .map(|ranks| (ranks, 1))
            .chain([(4, 2), (6, 2), (6, 3), (12, 3)]);
        for (ranks, on_host) in cases {
            // Two rings, the second in another order.
            let second = (0..ranks).rev().collect();
            let trees = vec![Tree::binary(ranks, false); 2];
            let rings = vec![(0..ranks).collect(), second];
            let channels = Channels::new(ranks, rings, trees).expect("two rings");
            let hosts: Vec<u32> = (0..ranks).map(|rank| rank / on_host).collect();
            let channels = channels.on_hosts(&hosts).expect("a host for each");
            for collective in Collective::ALL {
                let request = ProgramRequest {
                    collective,
                    schedule: Schedule::Ring,
                    transfer: match on_host {
                        1 => Transfer::Fifo,
                        _ => Transfer::Hierarchical,
                    },
                    root: 0,
                    in_place: false,
                    channels: &channels,
                };
                let Ok(lowering) = Lowering::new(&request) else {
                    continue;
                };
                let mut promised = 0;
                for (rank, channel) in (0..ranks).flat_map(|rank| [(rank, 0), (rank, 1)]) {
                    let Some(likeness) = lowering.likeness(rank, channel) else {
                        continue;
                    };
                    promised += 1;
                    let theirs = lowering.of_channel(likeness.like, channel);
                    let own = lowering.of_channel(rank, channel);
                    let itself = Likeness {
                        like: rank,
                        ends: Vec::new(),
                    };
                    for (theirs, own) in theirs.lanes.iter().zip(&own.lanes) {
                        assert_eq!(renamed(theirs, &likeness), renamed(own, &itself));
                    }
                    assert_eq!(theirs.lanes.len(), own.lanes.len());
                }
                let rooted = matches!(collective, Collective::Broadcast | Collective::Reduce);
                assert_eq!(promised, if rooted { 0 } else { 2 * ranks }, "{collective}");
            }
        }
    }

    #[test]
    fn the_program_of_one_rank_is_that_among_all() {
        let channels = Channels::plain(6, 2).expect("six ranks");
        for schedule in Schedule::ALL {
            let request = ProgramRequest {
                collective: Collective::AllReduce,
                schedule,
                transfer: Transfer::Fifo,
                root: 0,
                in_place: true,
                channels: &channels,
            };
            let Ok(lowering) = Lowering::new(&request) else {
                continue;
            };
            let all = super::super::lower(&request).expect("the same request");
            for (program, rank) in all.iter().zip(0..) {
                assert_eq!(lowering.program(rank).lanes, program.lanes, "{schedule}");
            }
        }
    }
}
