//! The lanes of one channel, of all ranks, joined by FIFOs and signals.

use rustc_hash::FxHashMap;

use super::buffers::Memory;
use super::error::{At, Fault, Phase, Place, VerifyError, connection, limits, operand};
use crate::{Buffer, Connection, Lane, Operand, Pieces, Program, Step};

/// The programs of a communicator, and what memory each rank has.
pub struct Communicator<'a> {
    pub programs: &'a [Program],
    pub memory: Vec<Memory>,
    /// Per rank, the place of its program.
    places: Vec<Option<u32>>,
    /// The channel whose lanes use a connection.
    owners: FxHashMap<(Wire, Carries), u16>,
}

/// A connection between two ranks, named alike at both ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Wire {
    from: u32,
    to: u32,
    channel: u16,
    port: u8,
}

/// What a connection carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Carries {
    Slots,
    Signals,
}

/// The three parts of a lane.
pub const PARTS: [&str; 3] = ["prologue", "body", "epilogue"];

/// One direction of a connection: the lanes at its ends.
#[derive(Debug)]
pub struct Link {
    wire: Wire,
    /// Lane that sends, as a place in the network.
    pub sender: Option<u32>,
    /// Lane that receives.
    pub receiver: Option<u32>,
    /// Sent in each part.
    sent: [usize; 3],
    /// Received in each part.
    received: [usize; 3],
}

/// A step with its operands looked up.
#[derive(Debug)]
pub struct NetworkStep<'a> {
    pub step: &'a Step,
    /// Places in [`Network::signals`].
    pub waits: Vec<u32>,
    /// Places in [`Network::signals`].
    pub notifies: Vec<u32>,
    /// What is read: a multicast is a target at each rank.
    pub sources: Vec<Target>,
    pub destinations: Vec<Target>,
    /// By target, which of the step's operands it is.
    pub named: [Vec<&'a Operand>; 2],
}

/// An operand, looked up.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    /// Place in [`Network::fifos`].
    Fifo(u32),
    /// A block of some rank.
    Memory {
        /// Place of its program.
        program: u32,
        buffer: Buffer,
        block: u32,
    },
}

/// A lane, looked up.
#[derive(Debug)]
pub struct NetworkLane<'a> {
    /// Place of its program.
    pub program: u32,
    /// Its place in the program.
    pub lane: usize,
    /// Prologue, body, epilogue.
    pub parts: [Vec<NetworkStep<'a>>; 3],
}

/// The lanes of one channel.
#[derive(Debug, Default)]
pub struct Network<'a> {
    pub lanes: Vec<NetworkLane<'a>>,
    pub fifos: Vec<Link>,
    pub signals: Vec<Link>,
    /// Whether a rank has several lanes, or touches another's memory: whether accesses could race.
    pub shares_memory: bool,
}

impl<'a> Communicator<'a> {
    /// Checks that the programs belong together.
    pub fn new(programs: &'a [Program]) -> Result<Self, Box<VerifyError>> {
        let Some(first) = programs.first() else {
            return Ok(Self {
                programs,
                memory: Vec::new(),
                places: Vec::new(),
                owners: FxHashMap::default(),
            });
        };
        let apart = |program: &Program, problem: String| VerifyError {
            at: Box::new(Place::of(program)),
            fault: Fault::Together(problem),
        };
        let mut places = vec![None; first.ranks as usize];
        for (program, at) in programs.iter().zip(0..) {
            if frame(program, first.rank) != frame(first, first.rank) {
                let problem = format!(
                    "expected the same as rank {} has, but for lanes",
                    first.rank
                );
                return Err(Box::new(apart(program, problem)));
            }
            match places.get_mut(program.rank as usize) {
                Some(place @ None) => *place = Some(at),
                Some(Some(_)) => {
                    return Err(Box::new(apart(
                        program,
                        "the rank has two programs".to_owned(),
                    )));
                }
                None => {
                    let problem = format!("expected ranks below {}", first.ranks);
                    return Err(Box::new(apart(program, problem)));
                }
            }
        }
        let transfer = first.collective == crate::Collective::SendRecv;
        let expected = if transfer {
            programs.len().min(2)
        } else {
            places.len()
        };
        if programs.len() != expected {
            let problem = format!("{} programs; expected {expected}", programs.len());
            return Err(Box::new(apart(first, problem)));
        }
        let receiver = programs.iter().find(|program| program.rank != first.root);
        let receiver = receiver.map_or(first.root, |program| program.rank);
        if transfer && places.get(first.root as usize).is_none_or(Option::is_none) {
            let problem = format!("the program of the sender, rank {}, is missing", first.root);
            return Err(Box::new(apart(first, problem)));
        }
        Ok(Self {
            programs,
            memory: programs
                .iter()
                .map(|program| Memory::of(program, receiver))
                .collect(),
            places,
            owners: FxHashMap::default(),
        })
    }

    /// Looks up and checks all lanes of a channel.
    pub fn network(&mut self, channel: u16) -> Result<Network<'a>, Box<VerifyError>> {
        let mut builder = Builder {
            network: Network::default(),
            wires: FxHashMap::default(),
        };
        for (program, place) in self.programs.iter().zip(0_u32..) {
            let mut lanes = 0;
            for (at, lane) in program.lanes.iter().enumerate() {
                if lane.channel == channel {
                    builder.lane(self, place, at, lane)?;
                    lanes += 1;
                }
            }
            builder.network.shares_memory |= lanes > 1;
        }
        let network = builder.network;
        for (wire, carries) in builder.wires.into_keys() {
            let owner = *self.owners.entry((wire, carries)).or_insert(channel);
            if owner != channel {
                let program = self
                    .programs
                    .iter()
                    .find(|program| program.rank == wire.from);
                let problem = format!(
                    "the connection from rank {} to rank {} (channel {}, port {}) is used for the shares of channels {owner} and {channel}",
                    wire.from, wire.to, wire.channel, wire.port
                );
                let program = program.unwrap_or(&self.programs[0]);
                return Err(Box::new(VerifyError {
                    at: Box::new(Place::of(program)),
                    fault: Fault::Limit(problem),
                }));
            }
        }
        network.check_balance(self)?;
        Ok(network)
    }

    pub fn place(&self, network: &Network<'_>, lane: u32, step: Option<At>) -> Box<Place> {
        let lane = &network.lanes[lane as usize];
        let program = &self.programs[lane.program as usize];
        let channel = program.lanes[lane.lane].channel;
        Box::new(Place {
            lane: Some((lane.lane, channel)),
            step,
            ..Place::of(program)
        })
    }
}

/// All that programs of a communicator have in common, as if it were some rank's.
fn frame(program: &Program, rank: u32) -> Program {
    Program {
        rank,
        lanes: Vec::new(),
        ..*program
    }
}

struct Builder<'a> {
    network: Network<'a>,
    wires: FxHashMap<(Wire, Carries), u32>,
}

impl<'a> Builder<'a> {
    fn lane(
        &mut self,
        all: &Communicator<'a>,
        program: u32,
        lane_place: usize,
        lane: &'a Lane,
    ) -> Result<(), Box<VerifyError>> {
        let number = u32::try_from(self.network.lanes.len()).unwrap_or(u32::MAX);
        let mut parts = [Vec::new(), Vec::new(), Vec::new()];
        for (part, steps) in [&lane.prologue, &lane.body, &lane.epilogue]
            .into_iter()
            .enumerate()
        {
            for (at, step) in steps.iter().enumerate() {
                let fail = |fault| {
                    let at = At {
                        phase: [Phase::Prologue, Phase::Turn(0), Phase::Epilogue][part],
                        step: at,
                    };
                    Box::new(VerifyError {
                        at: Box::new(Place {
                            lane: Some((lane_place, lane.channel)),
                            step: Some(at),
                            ..Place::of(&all.programs[program as usize])
                        }),
                        fault,
                    })
                };
                check_limits(&all.programs[program as usize], step, part == 1).map_err(fail)?;
                let step = self.step(all, program, number, part, step).map_err(fail)?;
                parts[part].push(step);
            }
        }
        self.network.lanes.push(NetworkLane {
            program,
            lane: lane_place,
            parts,
        });
        Ok(())
    }

    fn step(
        &mut self,
        all: &Communicator<'a>,
        program: u32,
        lane: u32,
        part: usize,
        step: &'a Step,
    ) -> Result<NetworkStep<'a>, Fault> {
        let mut end = |there: &Connection, carries, sends| {
            self.end(all, program, lane, part, *there, carries, sends)
        };
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
                if let Operand::Multicast { block } = *operand {
                    sides[side].extend(self.everywhere(all, program, block, operand, side == 1)?);
                } else {
                    let target = self.target(all, program, lane, part, operand, side == 1)?;
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

    /// A block of the scratch memory of every rank, the own first.
    fn everywhere(
        &mut self,
        all: &Communicator<'a>,
        program: u32,
        block: u32,
        which: &Operand,
        sends: bool,
    ) -> Result<Vec<Target>, Fault> {
        self.network.shares_memory = true;
        let buffer = Buffer::Scratch;
        let others = (0_u32..).zip(all.programs).map(|(place, _)| place);
        let places = std::iter::once(program).chain(others.filter(|place| *place != program));
        let target = |place: u32| {
            let blocks = all.memory[place as usize].blocks(buffer);
            if block < blocks {
                return Ok(Target::Memory {
                    program: place,
                    buffer,
                    block,
                });
            }
            let rank = all.programs[place as usize].rank;
            Err(Fault::NoBlock {
                operand: operand(all.programs[program as usize].rank, which, sends),
                rank,
                buffer,
                blocks,
            })
        };
        places.map(target).collect()
    }

    fn target(
        &mut self,
        all: &Communicator<'a>,
        program: u32,
        lane: u32,
        part: usize,
        which: &Operand,
        sends: bool,
    ) -> Result<Target, Fault> {
        let own = all.programs[program as usize].rank;
        let (rank, buffer, block) = match *which {
            Operand::Fifo(there) => {
                let fifo = self.end(all, program, lane, part, there, Carries::Slots, sends)?;
                return Ok(Target::Fifo(fifo));
            }
            Operand::Local { buffer, block } => (own, buffer, block),
            // Of all ranks, the own.
            Operand::Multicast { block } => (own, Buffer::Scratch, block),
            Operand::Peer {
                rank,
                buffer,
                block,
            } => {
                self.network.shares_memory = true;
                (rank, buffer, block)
            }
        };
        if sends && buffer == Buffer::Input {
            return Err(Fault::WritesInput);
        }
        let own_as_peer = matches!(which, Operand::Peer { .. }) && rank == own;
        let there = all.places.get(rank as usize).copied().flatten();
        let blocks = there.map_or(0, |there| all.memory[there as usize].blocks(buffer));
        match there {
            Some(there) if block < blocks && !own_as_peer => Ok(Target::Memory {
                program: there,
                buffer,
                block,
            }),
            _ => Err(Fault::NoBlock {
                operand: operand(own, which, sends),
                rank,
                buffer,
                blocks,
            }),
        }
    }

    /// One use of one end of a connection.
    #[expect(
        clippy::too_many_arguments,
        reason = "all of them say where the use is"
    )]
    fn end(
        &mut self,
        all: &Communicator<'a>,
        program: u32,
        lane: u32,
        part: usize,
        there: Connection,
        carries: Carries,
        sends: bool,
    ) -> Result<u32, Fault> {
        let own = all.programs[program as usize].rank;
        let known = all.places.get(there.peer as usize).copied().flatten();
        if known.is_none() || there.peer == own {
            let problem = format!(
                "a connection with rank {}; expected another rank that takes part",
                there.peer
            );
            return Err(Fault::Limit(problem));
        }
        let (from, to) = if sends {
            (own, there.peer)
        } else {
            (there.peer, own)
        };
        let wire = Wire {
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
            links.push(Link {
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
        count[part] += 1;
        let user = *user.get_or_insert(lane);
        if user != lane {
            return Err(Fault::SharedEnd {
                other: self.network.lanes[user as usize].lane,
                end: if sends { "sending" } else { "receiving" },
                what,
                connection: connection(own, there, sends),
            });
        }
        Ok(place)
    }
}

impl Network<'_> {
    /// What is sent must be received: in the body in the same turn, or, of signals, in a later one. Then no wait is for
    /// something that comes in a later turn, which is why a few turns show what any number of turns does.
    fn check_balance(&self, all: &Communicator<'_>) -> Result<(), Box<VerifyError>> {
        let links = self.fifos.iter().map(|link| (link, "FIFO"));
        for (link, what) in links.chain(self.signals.iter().map(|link| (link, "signal"))) {
            let (sent, received) = (link.sent, link.received);
            let total = |counts: [usize; 3]| counts[0] + counts[2];
            let (part, expected) = if sent[1] != received[1] {
                (1, "as many of one as of the other")
            } else if sent[0] < received[0] {
                (0, "no more taken than given")
            } else if total(sent) != total(received) {
                (2, "that all are taken in the end")
            } else {
                continue;
            };
            let Some(lane) = link.receiver.or(link.sender) else {
                continue;
            };
            let own = link.wire.to;
            let there = Connection {
                peer: link.wire.from,
                channel: link.wire.channel,
                port: link.wire.port,
            };
            return Err(Box::new(VerifyError {
                at: all.place(self, lane, None),
                fault: Fault::Unbalanced {
                    what,
                    connection: connection(own, there, false),
                    given: sent[part],
                    taken: received[part],
                    part: PARTS[part],
                    expected,
                },
            }));
        }
        Ok(())
    }

    /// After so many turns every turn is like the one before it: signals given before the turns have then been taken.
    pub fn turns_until_steady(&self) -> usize {
        let ahead = self.signals.iter().map(|link| {
            let surplus = link.sent[0].saturating_sub(link.received[0]);
            if link.received[1] == 0 {
                0
            } else {
                surplus.div_ceil(link.received[1])
            }
        });
        ahead.max().unwrap_or(0)
    }

    /// A connection in words.
    pub fn name(link: &Link) -> String {
        let there = Connection {
            peer: link.wire.to,
            channel: link.wire.channel,
            port: link.wire.port,
        };
        connection(link.wire.from, there, true)
    }
}

fn check_limits(program: &Program, step: &Step, moves: bool) -> Result<(), Fault> {
    let fifos = |operands: &[Operand]| operands.iter().filter(|operand| operand.is_fifo()).count();
    let (sources, destinations) = (&step.sources[..], &step.destinations[..]);
    let too_many = sources.len() > Step::MOST_OPERANDS
        || destinations.len() > Step::MOST_OPERANDS
        || fifos(sources) > Step::MOST_FIFOS
        || fifos(destinations) > Step::MOST_FIFOS
        || step.waits.len() > Step::MOST_SIGNALS
        || step.notifies.len() > Step::MOST_SIGNALS;
    let Pieces { first, count } = step.pieces;
    let problem = if too_many {
        format!(
            "{} sources, {} destinations, {} waits, {} notifies; {}",
            sources.len(),
            destinations.len(),
            step.waits.len(),
            step.notifies.len(),
            limits()
        )
    } else if !moves && step.operands().next().is_some() {
        "moves data outside of the turns; expected signals only".to_owned()
    } else if sources.is_empty() != destinations.is_empty() {
        "expected both sources and destinations, or neither".to_owned()
    } else if twice(sources) || twice(destinations) {
        "the same operand twice; expected different ones".to_owned()
    } else if twice(&step.waits) || twice(&step.notifies) {
        "the same signal twice; expected different ones".to_owned()
    } else if [sources, destinations].into_iter().any(mixed) {
        "a multicast beside another operand; expected it to be the only one of its side".to_owned()
    } else if count == 0 || u32::from(first) + u32::from(count) > program.pieces.into() {
        format!(
            "{count} pieces from piece {first}; expected at least one of the {} pieces of a window",
            program.pieces
        )
    } else if fifos(sources) + fifos(destinations) > 0 && count > program.fifo_pieces {
        format!(
            "{count} pieces through a FIFO; expected at most {}, as the program says",
            program.fifo_pieces
        )
    } else {
        return Ok(());
    };
    Err(Fault::Limit(problem))
}

/// Whether there is a multicast, and something else.
fn mixed(operands: &[Operand]) -> bool {
    let multicast = |operand: &Operand| matches!(operand, Operand::Multicast { .. });
    operands.len() > 1 && operands.iter().any(multicast)
}

/// Whether something is there twice, among few.
fn twice<T: PartialEq>(things: &[T]) -> bool {
    let mut rest = things;
    while let Some((first, others)) = rest.split_first() {
        if others.contains(first) {
            return true;
        }
        rest = others;
    }
    false
}
