//! The memory of all ranks: the value of each cell, and its last accesses.

use super::buffers::{BlockCounts, alias};
use super::clocks::{Clocks, Epoch};
use super::program_set::ProgramSet;
use super::value::{Sets, Value, ValueState};
use crate::{BufferKind, Program};

/// One piece of one block in one turn (of scratch memory, in all turns).
#[derive(Debug, Clone, Default)]
struct Cell {
    value: Option<Value>,
    written: Option<Epoch>,
    /// Reads since the last write that are not ordered among each other.
    reads: Vec<Epoch>,
}

pub(super) struct Cells {
    turns: usize,
    pieces: usize,
    /// Per program, where the cells of its input, output and scratch memory begin.
    starts: Vec<[usize; 3]>,
    cells: Vec<Cell>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct CellAt {
    pub program: u32,
    pub buffer: BufferKind,
    pub block: u32,
    pub turn: u32,
    pub piece: u16,
}

/// The other access of a race.
pub(super) struct Conflict {
    pub other: Epoch,
    pub other_writes: bool,
}

impl Cells {
    /// The memory before a launch: inputs only.
    pub(super) fn new(all: &ProgramSet<'_>, turns: u32, sets: &mut Sets) -> Self {
        let pieces = all.programs.first().map_or(1, |program| program.pieces);
        let mut cells = Self {
            turns: turns as usize,
            pieces: pieces.into(),
            starts: Vec::with_capacity(all.programs.len()),
            cells: Vec::new(),
        };
        let mut count = 0;
        for memory in &all.memory {
            let window = |blocks: u32| blocks as usize * cells.pieces;
            let starts = [
                count,
                count + window(memory.input) * cells.turns,
                count + window(memory.input + memory.output) * cells.turns,
            ];
            count = starts[2] + window(memory.scratch);
            cells.starts.push(starts);
        }
        cells.cells = vec![Cell::default(); count];
        for (place, (program, memory)) in (0..).zip(all.programs.iter().zip(&all.memory)) {
            let ranks = sets.one(program.rank);
            for block in 0..memory.input {
                for turn in 0..turns {
                    for piece in 0..pieces {
                        let at = CellAt {
                            program: place,
                            buffer: BufferKind::Input,
                            block,
                            turn,
                            piece,
                        };
                        let index = cells.index(program, memory, at);
                        cells.cells[index].value = Some(Value {
                            block,
                            turn,
                            piece,
                            state: ValueState::Input,
                            ranks,
                        });
                    }
                }
            }
        }
        cells
    }

    fn index(&self, program: &Program, memory: &BlockCounts, at: CellAt) -> usize {
        let starts = self.starts[at.program as usize];
        let piece = usize::from(at.piece);
        let (buffer, block) = match at.buffer {
            BufferKind::Output => match alias(program, memory, at.block) {
                Some(block) => (BufferKind::Input, block),
                None => (BufferKind::Output, at.block),
            },
            buffer => (buffer, at.block),
        };
        let block = block as usize;
        let windowed = (block * self.turns + at.turn as usize) * self.pieces + piece;
        match buffer {
            BufferKind::Input => starts[0] + windowed,
            BufferKind::Output => starts[1] + windowed,
            BufferKind::Scratch => starts[2] + block * self.pieces + piece,
        }
    }

    fn cell(&mut self, all: &ProgramSet<'_>, at: CellAt) -> &mut Cell {
        let program = at.program as usize;
        let index = self.index(&all.programs[program], &all.memory[program], at);
        &mut self.cells[index]
    }

    pub(super) fn value(&mut self, all: &ProgramSet<'_>, at: CellAt) -> Option<Value> {
        self.cell(all, at).value
    }

    pub(super) fn read(
        &mut self,
        all: &ProgramSet<'_>,
        at: CellAt,
        lane: u32,
        clocks: &Clocks,
    ) -> Result<Option<Value>, Conflict> {
        let cell = self.cell(all, at);
        if let Some(now) = clocks.now(lane) {
            if let Some(written) = cell
                .written
                .filter(|written| !clocks.before(*written, lane))
            {
                return Err(Conflict {
                    other: written,
                    other_writes: true,
                });
            }
            // Reads ordered before this one need not be remembered.
            cell.reads.retain(|read| !clocks.before(*read, lane));
            cell.reads.push(now);
        }
        Ok(cell.value)
    }

    pub(super) fn write(
        &mut self,
        all: &ProgramSet<'_>,
        at: CellAt,
        value: Value,
        lane: u32,
        clocks: &Clocks,
    ) -> Result<(), Conflict> {
        let cell = self.cell(all, at);
        cell.value = Some(value);
        let Some(now) = clocks.now(lane) else {
            return Ok(());
        };
        let before = |other: &Epoch| clocks.before(*other, lane);
        if let Some(other) = cell.written.filter(|written| !before(written)) {
            return Err(Conflict {
                other,
                other_writes: true,
            });
        }
        if let Some(other) = cell.reads.iter().find(|read| !before(read)) {
            return Err(Conflict {
                other: *other,
                other_writes: false,
            });
        }
        cell.written = Some(now);
        cell.reads.clear();
        Ok(())
    }
}
