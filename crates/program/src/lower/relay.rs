//! A message that one rank sends to several ranks of another host by way of one of them, and the
//! reverse: the two stages in which tokens go to experts and their results come back.
//!
//! The relay receives each token once over the network, keeps a window of tokens in scratch memory,
//! and sends each rank of its host those that it needs. On the way back it adds what the ranks of
//! its host give for a token, and sends the sum (source: DeepEP `docs/legacy.md` and
//! `csrc/kernels/legacy/internode.cu`, MIT).

use super::send_recv::TRANSFER_PORT;
use super::write::{copy, step};
use super::{LowerError, agree};
use crate::{Channels, Collective, ConnectionEnd, Lane, Operand, Pieces, Program, Schedule};

/// Pieces of a window: the finest part of the tokens that a rank needs.
pub const RELAY_PIECES: u16 = 256;

/// A message by way of a relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relayed<'a> {
    /// Ranks of the communicator.
    pub ranks: u32,
    /// The rank whose tokens they are.
    pub source: u32,
    /// The relay; may be the source.
    pub relay: u32,
    /// The ranks that need tokens, and how many of each [`RELAY_PIECES`]; may have the relay or the
    /// source.
    pub needs: &'a [(u32, u16)],
    /// The channels, each with a share of the message.
    pub channels: &'a [u16],
    /// Tokens go to the ranks that need them; otherwise their results come back and are added.
    pub outward: bool,
}

/// Writes the programs of all ranks that take part, in ascending order.
///
/// # Errors
/// There is no such rank, no channel, or a rank needs nothing or more than all.
pub fn relayed(request: &Relayed<'_>) -> Result<Vec<Program>, LowerError> {
    let refused = |problem| LowerError::Transfer {
        from: request.source,
        to: request.relay,
        channels: request.channels.len(),
        problem,
    };
    let all = request.needs.iter().map(|(rank, _)| *rank);
    let mut taking: Vec<u32> = all.chain([request.source, request.relay]).collect();
    if request.ranks > Channels::MOST_RANKS || taking.iter().any(|it| *it >= request.ranks) {
        return Err(refused("expected ranks of the communicator"));
    }
    if request.needs.is_empty()
        || request
            .needs
            .iter()
            .any(|(_, count)| !(1..=RELAY_PIECES).contains(count))
    {
        return Err(refused("expected ranks that need 1 to 256 pieces each"));
    }
    let mut needing: Vec<u32> = request.needs.iter().map(|(rank, _)| *rank).collect();
    needing.sort_unstable();
    if needing.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(refused("expected each rank once"));
    }
    let channels = u16::try_from(request.channels.len()).ok();
    let channels = channels.filter(|it| (1..=Channels::MOST_CHANNELS).contains(&(*it).into()));
    let channels = channels.ok_or_else(|| refused("expected 1 to 256 channels"))?;
    taking.sort_unstable();
    taking.dedup();
    let mut programs = Vec::with_capacity(taking.len());
    for rank in taking {
        let mut program = Program {
            collective: Collective::SendRecv,
            schedule: Schedule::Mesh,
            ranks: request.ranks,
            rank,
            root: request.source,
            in_place: false,
            channels,
            shares: Vec::new(),
            pieces: RELAY_PIECES,
            fifo_pieces: 0,
            scratch_blocks: u32::from(rank == request.relay),
            lanes: Vec::new(),
        };
        for (share, channel) in (0..channels).zip(request.channels) {
            let body = match request.outward {
                true => request.out(rank, *channel),
                false => request.back(rank, *channel),
            };
            if !body.is_empty() {
                program.lanes.push(Lane {
                    channel: share,
                    prologue: Vec::new(),
                    body,
                    epilogue: Vec::new(),
                });
            }
        }
        if !program.lanes.is_empty() {
            programs.push(program);
        }
    }
    agree(&mut programs);
    Ok(programs)
}

/// All tokens of a window.
const WHOLE: Pieces = Pieces {
    first: 0,
    count: RELAY_PIECES,
};

impl Relayed<'_> {
    fn fifo(&self, peer: u32, channel: u16) -> Operand {
        Operand::Fifo(ConnectionEnd {
            peer,
            channel,
            port: TRANSFER_PORT + 1 + self.source,
        })
    }

    /// The tokens that a rank needs.
    const fn part(count: u16) -> Pieces {
        Pieces { first: 0, count }
    }

    fn need(&self, rank: u32) -> Option<u16> {
        let mut needs = self.needs.iter();
        needs.find(|(it, _)| *it == rank).map(|(_, count)| *count)
    }

    /// The steps of a rank of a turn, outward.
    fn out(&self, rank: u32, channel: u16) -> Vec<crate::Step> {
        let mut body = Vec::new();
        if rank == self.source && rank != self.relay {
            body.push(copy(
                WHOLE,
                Operand::input(0),
                [self.fifo(self.relay, channel)],
            ));
        }
        if rank == self.relay {
            let held = match rank == self.source {
                true => Operand::input(0),
                false => {
                    let held = Operand::scratch(0);
                    body.push(copy(WHOLE, self.fifo(self.source, channel), [held]));
                    held
                }
            };
            body.extend(self.needs.iter().map(|(peer, count)| {
                let to = match *peer == rank {
                    true => Operand::output(0),
                    false => self.fifo(*peer, channel),
                };
                copy(Self::part(*count), held, [to])
            }));
        } else if let Some(count) = self.need(rank) {
            let from = self.fifo(self.relay, channel);
            body.push(copy(Self::part(count), from, [Operand::output(0)]));
        }
        body
    }

    /// The same on the way back.
    fn back(&self, rank: u32, channel: u16) -> Vec<crate::Step> {
        let mut body = Vec::new();
        if rank == self.relay {
            let is_end = rank == self.source;
            let sum = match is_end {
                true => Operand::output(0),
                false => Operand::scratch(0),
            };
            for (at, (peer, count)) in self.needs.iter().enumerate() {
                let from = match *peer == rank {
                    true => Operand::input(0),
                    false => self.fifo(*peer, channel),
                };
                let before = (at > 0).then_some(sum);
                body.push(step(
                    Self::part(*count),
                    before.into_iter().chain([from]),
                    [sum],
                ));
            }
            if !is_end {
                body.push(copy(WHOLE, sum, [self.fifo(self.source, channel)]));
            }
        } else if let Some(count) = self.need(rank) {
            body.push(copy(
                Self::part(count),
                Operand::input(0),
                [self.fifo(self.relay, channel)],
            ));
        }
        if rank == self.source && rank != self.relay {
            let from = self.fifo(self.relay, channel);
            body.push(step(
                WHOLE,
                [Operand::output(0), from],
                [Operand::output(0)],
            ));
        }
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that each connection carries: by sender and receiver.
    fn carried(outward: bool) -> Vec<(u32, u32, u16)> {
        let request = Relayed {
            ranks: 8,
            source: 1,
            relay: 5,
            needs: &[(4, 64), (5, 128), (7, 256)],
            channels: &[0],
            outward,
        };
        let programs = relayed(&request).expect("a good request");
        let mut found = Vec::new();
        for program in &programs {
            for step in program.lanes.iter().flat_map(Lane::steps) {
                for to in &step.destinations {
                    if let Operand::Fifo(end) = to {
                        found.push((program.rank, end.peer, step.pieces.count));
                    }
                }
            }
        }
        found
    }

    #[test]
    fn the_network_carries_each_token_once() {
        assert_eq!(carried(true), [(1, 5, 256), (5, 4, 64), (5, 7, 256)]);
        assert_eq!(carried(false), [(4, 5, 64), (5, 1, 256), (7, 5, 256)]);
    }

    #[test]
    fn a_host_of_its_own_needs_no_network() {
        let request = Relayed {
            ranks: 4,
            source: 2,
            relay: 2,
            needs: &[(2, 10), (3, 20)],
            channels: &[0, 3],
            outward: true,
        };
        let programs = relayed(&request).expect("a good request");
        let ranks: Vec<u32> = programs.iter().map(|it| it.rank).collect();
        assert_eq!(ranks, [2, 3]);
        assert_eq!(programs[0].lanes.len(), 2);
    }

    #[test]
    fn wrong_ranks_are_refused() {
        let refused = |change: fn(&mut Relayed<'_>)| {
            let mut request = Relayed {
                ranks: 4,
                source: 0,
                relay: 2,
                needs: &[(3, 20)],
                channels: &[0],
                outward: true,
            };
            change(&mut request);
            relayed(&request).is_err()
        };
        assert!(!refused(|_| ()));
        assert!(refused(|it| it.relay = 4));
        assert!(refused(|it| it.needs = &[]));
        assert!(refused(|it| it.needs = &[(3, 0)]));
        assert!(refused(|it| it.needs = &[(3, 1), (3, 2)]));
        assert!(refused(|it| it.channels = &[]));
    }
}
