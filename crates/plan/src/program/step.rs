//! Steps, and the lanes in which they follow each other.

use super::operand::{Connection, Operand};

/// A range of the pieces of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pieces {
    /// The first.
    pub first: u16,
    /// How many; never 0.
    pub count: u16,
}

impl Pieces {
    /// One piece.
    pub const fn one(first: u16) -> Self {
        Self { first, count: 1 }
    }
}

/// One step: wait for signals, take the sources, reduce them, store the result in every destination, signal.
///
/// NCCL's primitives are the shapes of this: `recvReduceSend` has sources [FIFO, input] and destination [FIFO].
/// A step without sources and destinations only waits and signals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Signals that must have come; each wait takes one.
    pub waits: Vec<Connection>,
    /// Which pieces of the blocks.
    pub pieces: Pieces,
    /// What is reduced together, in this order: at most three FIFOs, at most four in all.
    pub sources: Vec<Operand>,
    /// Whether the result is final, so that the operation's last part (the division of an average) is applied.
    pub finish: bool,
    /// Where the result goes: at most three FIFOs, at most four in all.
    pub destinations: Vec<Operand>,
    /// Signals that are given when the data is stored.
    pub notifies: Vec<Connection>,
}

impl Step {
    /// Most sources, and most destinations.
    pub const MOST_OPERANDS: usize = 4;

    /// Most FIFOs among the sources, and among the destinations.
    pub const MOST_FIFOS: usize = 3;

    /// Most signals that are awaited, and most that are given.
    pub const MOST_SIGNALS: usize = 4;

    /// All sources and destinations.
    pub fn operands(&self) -> impl Iterator<Item = &Operand> {
        self.sources.iter().chain(&self.destinations)
    }
}

/// Steps in order. The lanes of a program run concurrently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    /// The channel whose share of the message it works on.
    pub channel: u16,
    /// Once, before the turns, even for an empty message. Moves no data.
    pub prologue: Vec<Step>,
    /// In every turn.
    pub body: Vec<Step>,
    /// Once, after the turns, even for an empty message. Moves no data.
    pub epilogue: Vec<Step>,
}

impl Lane {
    /// All its steps.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.prologue.iter().chain(&self.body).chain(&self.epilogue)
    }
}
