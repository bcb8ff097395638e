//! Reads, reductions and writes of a step, with the checks of each.

use super::error::{VerifyError, VerifyFault, operand};
use super::memory::CellAt;
use super::network::{NetworkStep, ResolvedOperand};
use super::run::{Slot, SymbolicRun, fifos};
use super::value::{Value, ValueState};
use crate::{BufferKind, Pieces};

impl<'a> SymbolicRun<'a> {
    pub(super) fn move_data(
        &mut self,
        lane: u32,
        step: &'a NetworkStep<'a>,
        count: u16,
    ) -> Result<(), Box<VerifyError>> {
        let pieces = Pieces {
            count,
            ..step.step.pieces
        };
        let slots = self.take_slots(lane, step, pieces)?;
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
        for (destination, which) in step.destinations.iter().zip(&step.named[1]) {
            let ResolvedOperand::Memory {
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

    /// The slots of the sources that are FIFOs.
    fn take_slots(
        &mut self,
        lane: u32,
        step: &NetworkStep<'_>,
        pieces: Pieces,
    ) -> Result<Vec<Option<Slot>>, Box<VerifyError>> {
        let mut slots: Vec<Option<Slot>> = Vec::with_capacity(step.sources.len());
        for (source, which) in step.sources.iter().zip(&step.named[0]) {
            let slot = match source {
                ResolvedOperand::Fifo(fifo) => self.fifos[*fifo as usize].pop_front(),
                ResolvedOperand::Memory { .. } => None,
            };
            if let Some(slot) = &slot {
                self.clocks.learn(lane, &slot.known);
                if slot.pieces != pieces {
                    let fault = VerifyFault::OtherPieces {
                        fifo: operand(self.rank(lane), which, false),
                        found: slot.pieces,
                        expected: pieces,
                    };
                    return Err(self.fail(lane, fault));
                }
            }
            slots.push(slot);
        }
        Ok(slots)
    }

    fn read(
        &mut self,
        lane: u32,
        step: &NetworkStep<'_>,
        place: usize,
        piece: u16,
    ) -> Result<Value, Box<VerifyError>> {
        let which = step.named[0][place];
        let name = || operand(self.rank(lane), which, false);
        let ResolvedOperand::Memory {
            program,
            buffer,
            block,
        } = step.sources[place]
        else {
            return Err(self.fail(
                lane,
                VerifyFault::Nothing {
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
            return Err(self.fail(lane, VerifyFault::Nothing { operand, piece }));
        };
        let reduces = self.all.programs[program as usize].collective.reduces();
        let fault = match (buffer, value.state) {
            (BufferKind::Input, ValueState::Open | ValueState::Final) => VerifyFault::InputLost {
                operand: operand(),
                piece,
                found: self.sets.words_of(value),
            },
            (BufferKind::Output | BufferKind::Scratch, ValueState::Input) if reduces => {
                VerifyFault::Unscaled {
                    operand: operand(),
                    piece,
                }
            }
            (_, ValueState::Final) => return Ok(value),
            (_, ValueState::Input | ValueState::Open) => {
                return Ok(Value {
                    state: ValueState::Open,
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
        } else if first.state == ValueState::Final || second.state == ValueState::Final {
            "what is not final yet"
        } else if part(first) != part(second) {
            "the same block, piece and turn"
        } else if let Some(ranks) = self.sets.union(first.ranks, second.ranks) {
            return Ok(Value { ranks, ..first });
        } else {
            "each rank's input only once"
        };
        let fault = VerifyFault::Reduces {
            first: self.sets.words_of(first),
            second: self.sets.words_of(second),
            expected: rule,
        };
        Err(self.fail(lane, fault))
    }

    fn finish(&mut self, lane: u32, value: Value) -> Result<Value, Box<VerifyError>> {
        let rule = if !self.all.programs[0].collective.reduces() {
            "no last part, since this collective reduces nothing"
        } else if value.state == ValueState::Final {
            "that it is done once"
        } else if value.ranks != self.sets.all() {
            "the reduction of all ranks"
        } else {
            return Ok(Value {
                state: ValueState::Final,
                ..value
            });
        };
        let fault = VerifyFault::Finishes {
            found: self.sets.words_of(value),
            expected: rule,
        };
        Err(self.fail(lane, fault))
    }
}
