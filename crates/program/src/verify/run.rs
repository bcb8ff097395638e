//! Runs programs with symbols instead of data.
//!
//! Lanes wait only for slots, room and signals, and each end of a connection belongs to one lane.
//! In such a network the order of lanes changes neither the results nor whether all lanes end. So
//! one run in any order proves all orders.

use std::collections::VecDeque;

use super::clocks::{Clocks, Epoch, KnownSteps};
use super::error::{Phase, StepAt, VerifyError, VerifyFault};
use super::memory::Cells;
use super::network::{Network, NetworkStep, ResolvedOperand};
use super::program_set::ProgramSet;
use super::value::{Sets, Value};
use crate::Pieces;

pub(super) struct Slot {
    pub(super) pieces: Pieces,
    pub(super) values: Vec<Value>,
    pub(super) known: KnownSteps,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor {
    pub(super) part: usize,
    pub(super) turn: u32,
    pub(super) step: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Wait {
    Slot(u32),
    Room(u32),
    Signal(u32),
}

/// One launch.
pub(super) struct SymbolicRun<'a> {
    pub(super) all: &'a ProgramSet<'a>,
    pub(super) network: &'a Network<'a>,
    pub(super) turns: u32,
    /// Pieces of the last turn that are not empty.
    pub(super) filled: u16,
    pub(super) depth: u32,
    pub(super) sets: &'a mut Sets,
    pub(super) cells: Cells,
    pub(super) clocks: Clocks,
    pub(super) fifos: Vec<VecDeque<Slot>>,
    pub(super) signals: Vec<VecDeque<KnownSteps>>,
    pub(super) cursors: Vec<Cursor>,
    /// Per lane, the last accesses of peers' memory, with the index of the peer's program.
    pub(super) touched: Vec<Vec<(u32, Epoch, StepAt)>>,
    /// Per lane, its steps by clock, to name the other access of a race.
    pub(super) trace: Vec<Vec<StepAt>>,
}

impl<'a> SymbolicRun<'a> {
    pub(super) fn new(
        all: &'a ProgramSet<'a>,
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

    /// Shortens the last turn to its first pieces.
    pub(super) fn with_last_turn(mut self, filled: u16) -> Self {
        self.filled = filled;
        self
    }

    /// Runs all lanes to their end, then checks the outputs.
    pub(super) fn run(mut self) -> Result<(), Box<VerifyError>> {
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

    /// The current step of a lane; `None` at its end.
    pub(super) fn current(&mut self, lane: u32) -> Option<&'a NetworkStep<'a>> {
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

    pub(super) fn at(&self, lane: u32) -> StepAt {
        let cursor = self.cursors[lane as usize];
        let phase = match cursor.part {
            0 => Phase::Prologue,
            1 => Phase::Turn(cursor.turn),
            _ => Phase::Epilogue,
        };
        StepAt {
            phase,
            step: cursor.step,
        }
    }

    /// Pieces that the current step of a lane moves; 0 if they are all empty.
    pub(super) fn pieces(&self, lane: u32, step: &NetworkStep<'_>) -> u16 {
        let Pieces { first, count } = step.step.pieces;
        if step.sources.is_empty() {
            0
        } else if self.cursors[lane as usize].turn + 1 == self.turns {
            count.min(self.filled.saturating_sub(first))
        } else {
            count
        }
    }

    pub(super) fn blocked(&self, step: &NetworkStep<'_>, pieces: u16) -> Option<Wait> {
        let missing = |signal: &&u32| self.signals[**signal as usize].is_empty();
        if let Some(signal) = step.waits.iter().find(missing) {
            return Some(Wait::Signal(*signal));
        }
        if pieces == 0 {
            return None;
        }
        let empty = |fifo: &u32| self.fifos[*fifo as usize].is_empty();
        if let Some(fifo) = fifos(&step.sources).find(empty) {
            return Some(Wait::Slot(fifo));
        }
        let full = |fifo: &u32| self.fifos[*fifo as usize].len() >= self.depth as usize;
        fifos(&step.destinations).find(full).map(Wait::Room)
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

    /// A peer's memory may be touched only after its launch has begun.
    pub(super) fn touch(
        &self,
        lane: u32,
        program: u32,
        operand: impl FnOnce() -> String,
    ) -> Result<(), Box<VerifyError>> {
        if self.network.lanes[lane as usize].program == program || self.has_begun(lane, program) {
            return Ok(());
        }
        let fault = VerifyFault::TooEarly {
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

    pub(super) fn lanes_of(&self, program: u32) -> impl Iterator<Item = u32> {
        let lanes = (0..).zip(&self.network.lanes);
        lanes
            .filter(move |(_, lane)| lane.program == program)
            .map(|(lane, _)| lane)
    }

    pub(super) fn note_touched(&mut self, lane: u32, step: &NetworkStep<'_>) {
        let own = self.network.lanes[lane as usize].program;
        let Some(now) = self.clocks.now(lane) else {
            return;
        };
        let at = self.at(lane);
        for target in step.sources.iter().chain(&step.destinations) {
            let ResolvedOperand::Memory { program, .. } = *target else {
                continue;
            };
            if program != own {
                let touched = &mut self.touched[lane as usize];
                touched.retain(|(peer, ..)| *peer != program);
                touched.push((program, now, at));
            }
        }
    }

    pub(super) fn rank(&self, lane: u32) -> u32 {
        let program = self.network.lanes[lane as usize].program;
        self.all.programs[program as usize].rank
    }

    pub(super) fn fail(&self, lane: u32, fault: VerifyFault) -> Box<VerifyError> {
        Box::new(VerifyError {
            at: self.network.location(self.all, lane, Some(self.at(lane))),
            fault,
        })
    }
}

pub(super) fn fifos(targets: &[ResolvedOperand]) -> impl Iterator<Item = u32> {
    targets.iter().filter_map(|target| match target {
        ResolvedOperand::Fifo(fifo) => Some(*fifo),
        ResolvedOperand::Memory { .. } => None,
    })
}
