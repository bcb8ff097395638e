//! Joins the lanes of a channel: resolves operands and connections, and checks every step.

use rustc_hash::FxHashMap;

use super::error::{Location, Phase, StepAt, VerifyError, VerifyFault, connection, operand};
use super::limits::check_limits;
use super::network::{
    Carries, DirectedConnection, LaneLink, Network, NetworkLane, NetworkStep, ResolvedOperand,
};
use super::program_set::ProgramSet;
use crate::{BufferKind, ConnectionEnd, Lane, Operand, Step};

/// The channel that uses each connection.
pub(super) type Owners = FxHashMap<(DirectedConnection, Carries), u16>;

/// Joins and checks all lanes of a channel.
pub(super) fn join<'a>(
    all: &ProgramSet<'a>,
    channel: u16,
    owners: &mut Owners,
) -> Result<Network<'a>, Box<VerifyError>> {
    let mut joiner = Joiner {
        all,
        network: Network::default(),
        wires: FxHashMap::default(),
    };
    for (program, index) in all.programs.iter().zip(0_u32..) {
        let mut lanes = 0;
        for (at, lane) in program.lanes.iter().enumerate() {
            if lane.channel == channel {
                joiner.lane(index, at, lane)?;
                lanes += 1;
            }
        }
        joiner.network.shares_memory |= lanes > 1;
    }
    for (wire, carries) in joiner.wires.into_keys() {
        let owner = *owners.entry((wire, carries)).or_insert(channel);
        if owner != channel {
            let problem = format!(
                "the connection from rank {} to rank {} (channel {}, port {}) is used for the shares of channels {owner} and {channel}",
                wire.from, wire.to, wire.channel, wire.port
            );
            let mut programs = all.programs.iter();
            let program = programs.find(|program| program.rank == wire.from);
            return Err(Box::new(VerifyError {
                at: Box::new(Location::of(program.unwrap_or(&all.programs[0]))),
                fault: VerifyFault::Limit(problem),
            }));
        }
    }
    joiner.network.check_balance(all)?;
    Ok(joiner.network)
}

/// Where a connection or an operand is used.
#[derive(Clone, Copy)]
struct UsedAt {
    program: u32,
    lane: u32,
    part: usize,
}

struct Joiner<'a, 'b> {
    all: &'b ProgramSet<'a>,
    network: Network<'a>,
    wires: FxHashMap<(DirectedConnection, Carries), u32>,
}

impl<'a> Joiner<'a, '_> {
    fn lane(
        &mut self,
        index: u32,
        lane_index: usize,
        lane: &'a Lane,
    ) -> Result<(), Box<VerifyError>> {
        let program = &self.all.programs[index as usize];
        let number = u32::try_from(self.network.lanes.len()).unwrap_or(u32::MAX);
        let mut parts = [Vec::new(), Vec::new(), Vec::new()];
        for (part, steps) in [&lane.prologue, &lane.body, &lane.epilogue]
            .into_iter()
            .enumerate()
        {
            for (at, step) in steps.iter().enumerate() {
                let fail = |fault| {
                    let at = StepAt {
                        phase: [Phase::Prologue, Phase::Turn(0), Phase::Epilogue][part],
                        step: at,
                    };
                    Box::new(VerifyError {
                        at: Box::new(Location {
                            lane: Some((lane_index, lane.channel)),
                            step: Some(at),
                            ..Location::of(program)
                        }),
                        fault,
                    })
                };
                check_limits(program, step, part == 1).map_err(fail)?;
                let used = UsedAt {
                    program: index,
                    lane: number,
                    part,
                };
                let step = self.step(used, step).map_err(fail)?;
                parts[part].push(step);
            }
        }
        self.network.lanes.push(NetworkLane {
            program: index,
            lane: lane_index,
            parts,
        });
        Ok(())
    }

    fn step(&mut self, at: UsedAt, step: &'a Step) -> Result<NetworkStep<'a>, VerifyFault> {
        let mut end = |there: &ConnectionEnd, carries, sends| self.end(at, *there, carries, sends);
        let mut waits = Vec::with_capacity(step.waits.len());
        for signal in &step.waits {
            waits.push(end(signal, Carries::Signals, false)?);
        }
        let mut notifies = Vec::with_capacity(step.notifies.len());
        for signal in &step.notifies {
            notifies.push(end(signal, Carries::Signals, true)?);
        }
        let mut sides = [Vec::new(), Vec::new()];
        let mut named = [Vec::new(), Vec::new()];
        for (side, operands) in [&step.sources, &step.destinations].into_iter().enumerate() {
            for operand in operands {
                if let Operand::Multicast { buffer, block } = *operand {
                    let all = self.everywhere(at, (buffer, block), operand, side == 1)?;
                    sides[side].extend(all);
                } else {
                    let target = self.target(at, operand, side == 1)?;
                    sides[side].push(target);
                }
                named[side].resize(sides[side].len(), operand);
            }
        }
        let [sources, destinations] = sides;
        Ok(NetworkStep {
            step,
            waits,
            notifies,
            sources,
            destinations,
            named,
        })
    }

    /// A block of every rank, the own rank's first.
    fn everywhere(
        &mut self,
        at: UsedAt,
        (buffer, block): (BufferKind, u32),
        which: &Operand,
        sends: bool,
    ) -> Result<Vec<ResolvedOperand>, VerifyFault> {
        if sends && buffer == BufferKind::Input {
            return Err(VerifyFault::WritesInput);
        }
        self.network.shares_memory = true;
        let all = self.all;
        let others = (0_u32..).zip(all.programs).map(|(index, _)| index);
        let indices =
            std::iter::once(at.program).chain(others.filter(|index| *index != at.program));
        let target = |index: u32| {
            let blocks = all.memory[index as usize].blocks(buffer);
            if block < blocks {
                return Ok(ResolvedOperand::Memory {
                    program: index,
                    buffer,
                    block,
                });
            }
            let rank = all.programs[index as usize].rank;
            Err(VerifyFault::NoBlock {
                operand: operand(self.rank(at), which, sends),
                rank,
                buffer,
                blocks,
            })
        };
        indices.map(target).collect()
    }

    fn target(
        &mut self,
        at: UsedAt,
        which: &Operand,
        sends: bool,
    ) -> Result<ResolvedOperand, VerifyFault> {
        let own = self.rank(at);
        let (rank, buffer, block) = match *which {
            Operand::Fifo(there) => {
                let fifo = self.end(at, there, Carries::Slots, sends)?;
                return Ok(ResolvedOperand::Fifo(fifo));
            }
            Operand::Local { buffer, block } => (own, buffer, block),
            // The own rank's part of the multicast.
            Operand::Multicast { buffer, block } => (own, buffer, block),
            Operand::Peer {
                rank,
                buffer,
                block,
            } => {
                self.network.shares_memory = true;
                (rank, buffer, block)
            }
        };
        if sends && buffer == BufferKind::Input {
            return Err(VerifyFault::WritesInput);
        }
        let own_as_peer = matches!(which, Operand::Peer { .. }) && rank == own;
        let there = self.all.index_of(rank);
        let blocks = there.map_or(0, |there| self.all.memory[there as usize].blocks(buffer));
        match there {
            Some(there) if block < blocks && !own_as_peer => Ok(ResolvedOperand::Memory {
                program: there,
                buffer,
                block,
            }),
            _ => Err(VerifyFault::NoBlock {
                operand: operand(own, which, sends),
                rank,
                buffer,
                blocks,
            }),
        }
    }

    /// Registers a use of one end of a connection, and returns the connection's index.
    fn end(
        &mut self,
        at: UsedAt,
        there: ConnectionEnd,
        carries: Carries,
        sends: bool,
    ) -> Result<u32, VerifyFault> {
        let own = self.rank(at);
        if self.all.index_of(there.peer).is_none() || there.peer == own {
            let problem = format!(
                "a connection with rank {}; expected another rank that takes part",
                there.peer
            );
            return Err(VerifyFault::Limit(problem));
        }
        let (from, to) = if sends {
            (own, there.peer)
        } else {
            (there.peer, own)
        };
        let wire = DirectedConnection {
            from,
            to,
            channel: there.channel,
            port: there.port,
        };
        let (links, what) = match carries {
            Carries::Slots => (&mut self.network.fifos, "FIFO"),
            Carries::Signals => (&mut self.network.signals, "signal"),
        };
        let place = *self.wires.entry((wire, carries)).or_insert_with(|| {
            links.push(LaneLink {
                wire,
                sender: None,
                receiver: None,
                sent: [0; 3],
                received: [0; 3],
            });
            u32::try_from(links.len() - 1).unwrap_or(u32::MAX)
        });
        let link = &mut links[place as usize];
        let (user, count) = if sends {
            (&mut link.sender, &mut link.sent)
        } else {
            (&mut link.receiver, &mut link.received)
        };
        count[at.part] += 1;
        let user = *user.get_or_insert(at.lane);
        if user != at.lane {
            return Err(VerifyFault::SharedEnd {
                other: self.network.lanes[user as usize].lane,
                end: if sends { "sending" } else { "receiving" },
                what,
                connection: connection(own, there, sends),
            });
        }
        Ok(place)
    }

    fn rank(&self, at: UsedAt) -> u32 {
        self.all.programs[at.program as usize].rank
    }
}
