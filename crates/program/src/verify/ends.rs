//! Checks after a run, and reports of races and deadlocks.

use super::buffers::expected;
use super::clocks::Epoch;
use super::error::{Location, VerifyError, VerifyFault};
use super::memory::{CellAt, Conflict};
use super::network::{LaneLink, Network};
use super::run::{SymbolicRun, Wait};
use super::value::{Value, ValueState};
use crate::BufferKind;

impl<'a> SymbolicRun<'a> {
    /// A launch may end only after the last access of its memory.
    pub(super) fn check_lifetimes(&self) -> Result<(), Box<VerifyError>> {
        for (lane, touched) in (0..).zip(&self.touched) {
            for (program, last, at) in touched {
                let mut lanes = self.lanes_of(*program);
                if !lanes.any(|other| self.clocks.before(*last, other)) {
                    return Err(Box::new(VerifyError {
                        at: self.network.location(self.all, lane, Some(*at)),
                        fault: VerifyFault::TooLate {
                            peer: self.all.programs[*program as usize].rank,
                        },
                    }));
                }
            }
        }
        Ok(())
    }

    pub(super) fn check_outputs(&mut self) -> Result<(), Box<VerifyError>> {
        for (program, memory) in (0_u32..).zip(&self.all.memory) {
            let rank = &self.all.programs[program as usize];
            for block in 0..memory.output {
                let (from, of) = expected(rank, block);
                let ranks = match of {
                    Some(rank) => self.sets.one(rank),
                    None => self.sets.all(),
                };
                let state = if rank.collective.reduces() {
                    ValueState::Final
                } else {
                    ValueState::Open
                };
                for turn in 0..self.turns {
                    let last = turn + 1 == self.turns;
                    for piece in 0..if last { self.filled } else { rank.pieces } {
                        let at = CellAt {
                            program,
                            buffer: BufferKind::Output,
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
                        // Without a reduction, data that is already in place needs no copy.
                        let taken = found.map(|value| match value.state {
                            ValueState::Input if state == ValueState::Open => Value {
                                state: ValueState::Open,
                                ..value
                            },
                            _ => value,
                        });
                        if taken != Some(wanted) {
                            let found = found.map(|value| self.sets.words_of(value));
                            return Err(Box::new(VerifyError {
                                at: Box::new(Location::of(rank)),
                                fault: VerifyFault::Output {
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

    pub(super) fn race(
        &self,
        lane: u32,
        access: &'static str,
        operand: String,
        piece: u16,
        conflict: &Conflict,
    ) -> Box<VerifyError> {
        let Epoch { lane: other, clock } = conflict.other;
        // The first step of a lane has clock 2, because 1 is the beginning of the launch.
        let trace = &self.trace[other as usize];
        let at = (clock as usize).checked_sub(2).and_then(|at| trace.get(at));
        let (name, rank) = (self.network.lanes[other as usize].lane, self.rank(other));
        let at = at.map_or_else(String::new, |at| format!(", {at}"));
        let fault = VerifyFault::Race {
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

    /// Follows the waits from a stuck lane until a lane appears twice.
    pub(super) fn deadlock(&mut self, stuck: u32) -> Box<VerifyError> {
        const LONGEST: usize = 16;
        let (mut chain, mut seen, mut lane) = (Vec::new(), Vec::new(), Some(stuck));
        while let Some(at) = lane {
            let step = self.current(at);
            let blocked = step.and_then(|step| self.blocked(step, self.pieces(at, step)));
            let Some(blocked) = blocked else {
                break;
            };
            let network = self.network;
            let other = |links: &'a [LaneLink], place: u32, of: fn(&LaneLink) -> Option<u32>| {
                let link = &links[place as usize];
                (of(link), Network::name(link))
            };
            let ((next, link), what) = match blocked {
                Wait::Slot(fifo) => (
                    other(&network.fifos, fifo, |link| link.sender),
                    "a slot of the FIFO",
                ),
                Wait::Room(fifo) => (
                    other(&network.fifos, fifo, |link| link.receiver),
                    "room in the FIFO",
                ),
                Wait::Signal(signal) => (
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
        self.fail(stuck, VerifyFault::Deadlock { depth, chain })
    }
}
