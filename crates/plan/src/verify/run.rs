//! Running programs with symbols in place of data.
//!
//! Lanes only wait for slots, for room and for signals, and each end of a connection is used by one lane. In such a network
//! the order in which lanes run changes neither what is computed nor whether all come to their end, so running them once,
//! in any order, stands for all orders.

use std::collections::VecDeque;

use super::buffers::expected;
use super::clocks::{Clocks, Epoch, Known};
use super::error::{At, Fault, Phase, Place, VerifyError, operand};
use super::memory::{CellAt, Cells, Conflict};
use super::network::{Communicator, Link, Network, NetworkStep, Target};
use super::value::{Sets, State, Value};
use crate::program::{Buffer, Pieces};

/// A slot under way.
struct Slot {
    pieces: Pieces,
    values: Vec<Value>,
    known: Known,
}

/// Where a lane is.
#[derive(Debug, Clone, Copy)]
struct Cursor {
    part: usize,
    turn: u32,
    step: usize,
}

/// What a lane waits for.
#[derive(Debug, Clone, Copy)]
enum Blocked {
    /// A slot of a FIFO.
    Slot(u32),
    /// Room in a FIFO.
    Room(u32),
    /// A signal.
    Signal(u32),
}

/// One launch.
pub struct Run<'a> {
    all: &'a Communicator<'a>,
    network: &'a Network<'a>,
    turns: u32,
    /// Pieces of the last turn that are not empty.
    filled: u16,
    depth: u32,
    sets: &'a mut Sets,
    cells: Cells,
    clocks: Clocks,
    fifos: Vec<VecDeque<Slot>>,
    signals: Vec<VecDeque<Known>>,
    cursors: Vec<Cursor>,
    /// Per lane, the last step that touched a peer's memory, and the place of the peer's program.
    touched: Vec<Vec<(u32, Epoch, At)>>,
    /// Per lane, where its steps were, to name the other one of two that race; by clock.
    trace: Vec<Vec<At>>,
}

impl<'a> Run<'a> {
    pub fn new(
        all: &'a Communicator<'a>,
        network: &'a Network<'a>,
        turns: u32,
        depth: u32,
        sets: &'a mut Sets,
    ) -> Self {
        let pieces = all.programs.first().map_or(1, |program| program.pieces);
        let lanes = network.lanes.len();
        Self {
            all,
            network,
            turns,
            filled: pieces,
            depth,
            cells: Cells::new(all, turns, sets),
            sets,
            clocks: Clocks::new(lanes, network.shares_memory),
            fifos: network.fifos.iter().map(|_| VecDeque::new()).collect(),
            signals: network.signals.iter().map(|_| VecDeque::new()).collect(),
            cursors: vec![
                Cursor {
                    part: 0,
                    turn: 0,
                    step: 0
                };
                lanes
            ],
            touched: vec![Vec::new(); lanes],
            trace: vec![Vec::new(); lanes],
        }
    }

    /// The same, with a last turn of which only the first pieces are not empty.
    pub fn with_last_turn(mut self, filled: u16) -> Self {
        self.filled = filled;
        self
    }

    /// Runs all lanes to their end, then looks at the outputs.
    pub fn run(mut self) -> Result<(), Box<VerifyError>> {
        let lanes = u32::try_from(self.cursors.len()).unwrap_or(u32::MAX);
        let mut queue: VecDeque<u32> = (0..lanes).collect();
        let mut queued = vec![true; self.cursors.len()];
        let network = self.network;
        while let Some(lane) = queue.pop_front() {
            queued[lane as usize] = false;
            while let Some(step) = self.current(lane) {
                let pieces = self.pieces(lane, step);
                if self.blocked(step, pieces).is_some() {
                    break;
                }
                self.step(lane, step, pieces)?;
                let mut wake = |other: Option<u32>| {
                    if let Some(other) = other
                        && !std::mem::replace(&mut queued[other as usize], true)
                    {
                        queue.push_back(other);
                    }
                };
                for fifo in fifos(&step.sources).filter(|_| pieces > 0) {
                    wake(network.fifos[fifo as usize].sender);
                }
                for fifo in fifos(&step.destinations).filter(|_| pieces > 0) {
                    wake(network.fifos[fifo as usize].receiver);
                }
                for signal in &step.notifies {
                    wake(network.signals[*signal as usize].receiver);
                }
                self.cursors[lane as usize].step += 1;
            }
        }
        if let Some(stuck) = (0..lanes).find(|lane| self.current(*lane).is_some()) {
            return Err(self.deadlock(stuck));
        }
        self.check_lifetimes()?;
        self.check_outputs()
    }

    /// The step that a lane is at; none at its end.
    fn current(&mut self, lane: u32) -> Option<&'a NetworkStep<'a>> {
        let parts = &self.network.lanes[lane as usize].parts;
        let cursor = &mut self.cursors[lane as usize];
        loop {
            let repeats = match cursor.part {
                0 | 2 => 1,
                1 => self.turns,
                _ => return None,
            };
            if cursor.turn < repeats
                && let Some(step) = parts[cursor.part].get(cursor.step)
            {
                return Some(step);
            }
            cursor.step = 0;
            cursor.turn += 1;
            if cursor.turn >= repeats {
                (cursor.part, cursor.turn) = (cursor.part + 1, 0);
            }
        }
    }

    fn at(&self, lane: u32) -> At {
        let cursor = self.cursors[lane as usize];
        let phase = match cursor.part {
            0 => Phase::Prologue,
            1 => Phase::Turn(cursor.turn),
            _ => Phase::Epilogue,
        };
        At {
            phase,
            step: cursor.step,
        }
    }

    /// How many pieces the step that a lane is at moves; none if they are all empty.
    fn pieces(&self, lane: u32, step: &NetworkStep<'_>) -> u16 {
        let Pieces { first, count } = step.step.pieces;
        if step.sources.is_empty() {
            0
        } else if self.cursors[lane as usize].turn + 1 == self.turns {
            count.min(self.filled.saturating_sub(first))
        } else {
            count
        }
    }

    fn blocked(&self, step: &NetworkStep<'_>, pieces: u16) -> Option<Blocked> {
        for signal in &step.waits {
            let needed = step.waits.iter().filter(|other| *other == signal).count();
            if self.signals[*signal as usize].len() < needed {
                return Some(Blocked::Signal(*signal));
            }
        }
        if pieces == 0 {
            return None;
        }
        let empty = |fifo: &u32| self.fifos[*fifo as usize].is_empty();
        if let Some(fifo) = fifos(&step.sources).find(empty) {
            return Some(Blocked::Slot(fifo));
        }
        let full = |fifo: &u32| self.fifos[*fifo as usize].len() >= self.depth as usize;
        fifos(&step.destinations).find(full).map(Blocked::Room)
    }

    fn step(
        &mut self,
        lane: u32,
        step: &'a NetworkStep<'a>,
        pieces: u16,
    ) -> Result<(), Box<VerifyError>> {
        self.clocks.tick(lane);
        if self.network.shares_memory {
            let at = self.at(lane);
            self.trace[lane as usize].push(at);
        }
        for signal in &step.waits {
            let known = self.signals[*signal as usize].pop_front().flatten();
            self.clocks.learn(lane, &known);
        }
        if pieces > 0 {
            self.move_data(lane, step, pieces)?;
        }
        for signal in &step.notifies {
            let known = self.clocks.known(lane);
            self.signals[*signal as usize].push_back(known);
        }
        Ok(())
    }

    fn move_data(
        &mut self,
        lane: u32,
        step: &'a NetworkStep<'a>,
        count: u16,
    ) -> Result<(), Box<VerifyError>> {
        let pieces = Pieces {
            count,
            ..step.step.pieces
        };
        let mut slots: Vec<Option<Slot>> = Vec::with_capacity(step.sources.len());
        for (source, which) in step.sources.iter().zip(&step.step.sources) {
            let slot = match source {
                Target::Fifo(fifo) => self.fifos[*fifo as usize].pop_front(),
                Target::Memory { .. } => None,
            };
            if let Some(slot) = &slot {
                self.clocks.learn(lane, &slot.known);
                if slot.pieces != pieces {
                    let fault = Fault::OtherPieces {
                        fifo: operand(self.rank(lane), which, false),
                        found: slot.pieces,
                        expected: pieces,
                    };
                    return Err(self.fail(lane, fault));
                }
            }
            slots.push(slot);
        }
        let mut results = Vec::with_capacity(pieces.count.into());
        for (piece, at) in (pieces.first..).take(pieces.count.into()).zip(0..) {
            let mut sum: Option<Value> = None;
            for (place, slot) in slots.iter().enumerate() {
                let value = match slot {
                    Some(slot) => slot.values[at],
                    None => self.read(lane, step, place, piece)?,
                };
                sum = Some(match sum {
                    Some(sum) => self.reduce(lane, sum, value)?,
                    None => value,
                });
            }
            // A step has at least one source.
            if let Some(sum) = sum {
                let result = if step.step.finish {
                    self.finish(lane, sum)?
                } else {
                    sum
                };
                results.push(result);
            }
        }
        for (destination, which) in step.destinations.iter().zip(&step.step.destinations) {
            let Target::Memory {
                program,
                buffer,
                block,
            } = *destination
            else {
                continue;
            };
            for (piece, value) in (pieces.first..).zip(&results) {
                let at = CellAt {
                    program,
                    buffer,
                    block,
                    turn: self.cursors[lane as usize].turn,
                    piece,
                };
                self.touch(lane, program, || operand(self.rank(lane), which, true))?;
                let written = self.cells.write(self.all, at, *value, lane, &self.clocks);
                written.map_err(|conflict| {
                    let operand = operand(self.rank(lane), which, true);
                    self.race(lane, "writes", operand, piece, &conflict)
                })?;
            }
        }
        for fifo in fifos(&step.destinations) {
            let slot = Slot {
                pieces,
                values: results.clone(),
                known: self.clocks.known(lane),
            };
            self.fifos[fifo as usize].push_back(slot);
        }
        self.note_touched(lane, step);
        Ok(())
    }

    fn read(
        &mut self,
        lane: u32,
        step: &NetworkStep<'_>,
        place: usize,
        piece: u16,
    ) -> Result<Value, Box<VerifyError>> {
        let which = &step.step.sources[place];
        let name = || operand(self.rank(lane), which, false);
        let Target::Memory {
            program,
            buffer,
            block,
        } = step.sources[place]
        else {
            return Err(self.fail(
                lane,
                Fault::Nothing {
                    operand: name(),
                    piece,
                },
            ));
        };
        self.touch(lane, program, name)?;
        let at = CellAt {
            program,
            buffer,
            block,
            turn: self.cursors[lane as usize].turn,
            piece,
        };
        let read = self.cells.read(self.all, at, lane, &self.clocks);
        let operand = || operand(self.rank(lane), which, false);
        let value =
            read.map_err(|conflict| self.race(lane, "reads", operand(), piece, &conflict))?;
        let Some(value) = value else {
            let operand = operand();
            return Err(self.fail(lane, Fault::Nothing { operand, piece }));
        };
        let reduces = self.all.programs[program as usize].collective.reduces();
        let fault = match (buffer, value.state) {
            (Buffer::Input, State::Open | State::Final) => Fault::InputLost {
                operand: operand(),
                piece,
                found: self.sets.words_of(value),
            },
            (Buffer::Output | Buffer::Scratch, State::Input) if reduces => Fault::Unscaled {
                operand: operand(),
                piece,
            },
            (_, State::Final) => return Ok(value),
            (_, State::Input | State::Open) => {
                return Ok(Value {
                    state: State::Open,
                    ..value
                });
            }
        };
        Err(self.fail(lane, fault))
    }

    fn reduce(
        &mut self,
        lane: u32,
        first: Value,
        second: Value,
    ) -> Result<Value, Box<VerifyError>> {
        let part = |value: Value| (value.block, value.turn, value.piece);
        let reduces = self.all.programs[0].collective.reduces();
        let rule = if !reduces {
            "a single source, since this collective reduces nothing"
        } else if first.state == State::Final || second.state == State::Final {
            "what is not final yet"
        } else if part(first) != part(second) {
            "the same block, piece and turn"
        } else if let Some(ranks) = self.sets.union(first.ranks, second.ranks) {
            return Ok(Value { ranks, ..first });
        } else {
            "each rank's input only once"
        };
        let fault = Fault::Reduces {
            first: self.sets.words_of(first),
            second: self.sets.words_of(second),
            expected: rule,
        };
        Err(self.fail(lane, fault))
    }

    fn finish(&mut self, lane: u32, value: Value) -> Result<Value, Box<VerifyError>> {
        let rule = if !self.all.programs[0].collective.reduces() {
            "no last part, since this collective reduces nothing"
        } else if value.state == State::Final {
            "that it is done once"
        } else if value.ranks != self.sets.all() {
            "the reduction of all ranks"
        } else {
            return Ok(Value {
                state: State::Final,
                ..value
            });
        };
        let fault = Fault::Finishes {
            found: self.sets.words_of(value),
            expected: rule,
        };
        Err(self.fail(lane, fault))
    }

    /// A peer's memory may be touched only after its launch has begun.
    fn touch(
        &self,
        lane: u32,
        program: u32,
        operand: impl FnOnce() -> String,
    ) -> Result<(), Box<VerifyError>> {
        if self.network.lanes[lane as usize].program == program || self.has_begun(lane, program) {
            return Ok(());
        }
        let fault = Fault::TooEarly {
            operand: operand(),
            peer: self.all.programs[program as usize].rank,
        };
        Err(self.fail(lane, fault))
    }

    fn has_begun(&self, lane: u32, program: u32) -> bool {
        self.lanes_of(program).any(|other| {
            self.clocks.before(
                Epoch {
                    lane: other,
                    clock: 1,
                },
                lane,
            )
        })
    }

    fn lanes_of(&self, program: u32) -> impl Iterator<Item = u32> {
        let lanes = (0..).zip(&self.network.lanes);
        lanes
            .filter(move |(_, lane)| lane.program == program)
            .map(|(lane, _)| lane)
    }

    fn note_touched(&mut self, lane: u32, step: &NetworkStep<'_>) {
        let own = self.network.lanes[lane as usize].program;
        let Some(now) = self.clocks.now(lane) else {
            return;
        };
        let at = self.at(lane);
        for target in step.sources.iter().chain(&step.destinations) {
            let Target::Memory { program, .. } = *target else {
                continue;
            };
            if program != own {
                let touched = &mut self.touched[lane as usize];
                touched.retain(|(peer, ..)| *peer != program);
                touched.push((program, now, at));
            }
        }
    }

    /// A launch may end only after the last access of its memory.
    fn check_lifetimes(&self) -> Result<(), Box<VerifyError>> {
        for (lane, touched) in (0..).zip(&self.touched) {
            for (program, last, at) in touched {
                let mut lanes = self.lanes_of(*program);
                if !lanes.any(|other| self.clocks.before(*last, other)) {
                    return Err(Box::new(VerifyError {
                        at: self.all.place(self.network, lane, Some(*at)),
                        fault: Fault::TooLate {
                            peer: self.all.programs[*program as usize].rank,
                        },
                    }));
                }
            }
        }
        Ok(())
    }

    fn check_outputs(&mut self) -> Result<(), Box<VerifyError>> {
        for (program, memory) in (0_u32..).zip(&self.all.memory) {
            let rank = &self.all.programs[program as usize];
            for block in 0..memory.output {
                let (from, of) = expected(rank, block);
                let ranks = match of {
                    Some(rank) => self.sets.one(rank),
                    None => self.sets.all(),
                };
                let state = if rank.collective.reduces() {
                    State::Final
                } else {
                    State::Open
                };
                for turn in 0..self.turns {
                    let last = turn + 1 == self.turns;
                    for piece in 0..if last { self.filled } else { rank.pieces } {
                        let at = CellAt {
                            program,
                            buffer: Buffer::Output,
                            block,
                            turn,
                            piece,
                        };
                        let wanted = Value {
                            block: from,
                            turn,
                            piece,
                            state,
                            ranks,
                        };
                        let found = self.cells.value(self.all, at);
                        // What is already in place needs no move, where nothing is reduced.
                        let taken = found.map(|value| match value.state {
                            State::Input if state == State::Open => Value {
                                state: State::Open,
                                ..value
                            },
                            _ => value,
                        });
                        if taken != Some(wanted) {
                            let found = found.map(|value| self.sets.words_of(value));
                            return Err(Box::new(VerifyError {
                                at: Box::new(Place::of(rank)),
                                fault: Fault::Output {
                                    block,
                                    piece,
                                    turn,
                                    found: found.unwrap_or_else(|| "nothing".to_owned()),
                                    expected: self.sets.words_of(wanted),
                                },
                            }));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn rank(&self, lane: u32) -> u32 {
        let program = self.network.lanes[lane as usize].program;
        self.all.programs[program as usize].rank
    }

    fn fail(&self, lane: u32, fault: Fault) -> Box<VerifyError> {
        Box::new(VerifyError {
            at: self.all.place(self.network, lane, Some(self.at(lane))),
            fault,
        })
    }

    fn race(
        &self,
        lane: u32,
        access: &'static str,
        operand: String,
        piece: u16,
        conflict: &Conflict,
    ) -> Box<VerifyError> {
        let Epoch { lane: other, clock } = conflict.other;
        // The first step of a lane has clock 2, for 1 says that the launch has begun.
        let trace = &self.trace[other as usize];
        let at = (clock as usize).checked_sub(2).and_then(|at| trace.get(at));
        let (name, rank) = (self.network.lanes[other as usize].lane, self.rank(other));
        let at = at.map_or_else(String::new, |at| format!(", {at}"));
        let fault = Fault::Race {
            access,
            operand,
            piece,
            other: format!("rank {rank}, lane {name}{at}"),
            other_access: if conflict.other_writes {
                "write"
            } else {
                "read"
            },
        };
        self.fail(lane, fault)
    }

    /// Who waits for whom, beginning with a lane that is stuck, until a lane appears twice.
    fn deadlock(&mut self, stuck: u32) -> Box<VerifyError> {
        const LONGEST: usize = 16;
        let (mut chain, mut seen, mut lane) = (Vec::new(), Vec::new(), Some(stuck));
        while let Some(at) = lane {
            let step = self.current(at);
            let blocked = step.and_then(|step| self.blocked(step, self.pieces(at, step)));
            let Some(blocked) = blocked else {
                break;
            };
            let network = self.network;
            let other = |links: &'a [Link], place: u32, of: fn(&Link) -> Option<u32>| {
                let link = &links[place as usize];
                (of(link), Network::name(link))
            };
            let ((next, link), what) = match blocked {
                Blocked::Slot(fifo) => (
                    other(&network.fifos, fifo, |link| link.sender),
                    "a slot of the FIFO",
                ),
                Blocked::Room(fifo) => (
                    other(&network.fifos, fifo, |link| link.receiver),
                    "room in the FIFO",
                ),
                Blocked::Signal(signal) => (
                    other(&network.signals, signal, |link| link.sender),
                    "a signal",
                ),
            };
            let (rank, step) = (self.rank(at), self.at(at));
            let number = network.lanes[at as usize].lane;
            chain.push(format!(
                "rank {rank}, lane {number}, {step} waits for {what} {link}"
            ));
            if seen.contains(&at) || chain.len() > LONGEST {
                break;
            }
            seen.push(at);
            lane = next;
        }
        let depth = self.depth;
        self.fail(stuck, Fault::Deadlock { depth, chain })
    }
}

fn fifos(targets: &[Target]) -> impl Iterator<Item = u32> {
    targets.iter().filter_map(|target| match target {
        Target::Fifo(fifo) => Some(*fifo),
        Target::Memory { .. } => None,
    })
}
