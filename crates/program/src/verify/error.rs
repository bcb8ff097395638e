//! The reasons why programs are refused.

use std::fmt;

use crate::Collective;
use crate::{BufferKind, ConnectionEnd, Operand, Pieces, Program, Schedule, Step};

/// Programs that must not be launched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {fault}")]
pub struct VerifyError {
    /// Where the fault is.
    pub at: Box<Location>,
    /// The fault.
    pub fault: VerifyFault,
}

/// A place in the programs of a communicator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The collective.
    pub collective: Collective,
    /// The algorithm.
    pub schedule: Schedule,
    /// Ranks of the communicator.
    pub ranks: u32,
    /// The rank of the program.
    pub rank: u32,
    /// The lane, as an index into the program, and its channel; `None` if the fault is not in one
    /// lane.
    pub lane: Option<(usize, u16)>,
    /// The step; `None` if the fault is not in one step.
    pub step: Option<StepAt>,
}

/// A step of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepAt {
    /// Before, in or after the turns.
    pub phase: Phase,
    /// Its index there.
    pub step: usize,
}

/// A part of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Before the turns.
    Prologue,
    /// In a turn, numbered from 0.
    Turn(u32),
    /// After the turns.
    Epilogue,
}

/// The fault of a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyFault {
    /// The programs are not those of one communicator and collective.
    #[error("the programs do not belong together: {0}")]
    Together(String),
    /// A step exceeds the limits.
    #[error("{0}")]
    Limit(String),
    /// An operand does not exist.
    #[error("{operand} does not exist: rank {rank} has {blocks} blocks of {}", name(*buffer))]
    NoBlock {
        /// The operand.
        operand: String,
        /// The rank of the buffer.
        rank: u32,
        /// The buffer.
        buffer: BufferKind,
        /// How many blocks there are.
        blocks: u32,
    },
    /// A step writes the caller's input.
    #[error("writes the input; expected the output or scratch memory as destination")]
    WritesInput,
    /// Two lanes use one end of a connection.
    #[error("lane {other} uses the {end} end of {what} {connection} too; expected one lane there")]
    SharedEnd {
        /// The other lane.
        other: usize,
        /// Sending or receiving.
        end: &'static str,
        /// FIFO or signal.
        what: &'static str,
        /// The connection.
        connection: String,
    },
    /// A connection's sends and receives do not match.
    #[error(
        "{what} {connection}: {given} given and {taken} taken in the {part}; expected {expected}"
    )]
    Unbalanced {
        /// FIFO slots or signals.
        what: &'static str,
        /// The connection.
        connection: String,
        /// How many are sent.
        given: usize,
        /// How many are received.
        taken: usize,
        /// The part of the lane.
        part: &'static str,
        /// The rule.
        expected: &'static str,
    },
    /// A slot holds other pieces than expected.
    #[error("{fifo} holds {found}; expected {expected}", found = pieces(*found), expected = pieces(*expected))]
    OtherPieces {
        /// The FIFO.
        fifo: String,
        /// The pieces in the slot.
        found: Pieces,
        /// The pieces that the step expects.
        expected: Pieces,
    },
    /// A step reads memory that was not written.
    #[error("reads {operand}, piece {piece}, where nothing was written")]
    Nothing {
        /// The operand.
        operand: String,
        /// The piece.
        piece: u16,
    },
    /// A step reads input that was overwritten.
    #[error(
        "reads {operand}, piece {piece}, which is no longer the input: {found} was written there"
    )]
    InputLost {
        /// The operand.
        operand: String,
        /// The piece.
        piece: u16,
        /// The value in memory.
        found: String,
    },
    /// A step reads input without the pre-multiplication.
    #[error(
        "reads {operand}, piece {piece}, which is still the input; expected to read it as input, so that it is pre-multiplied"
    )]
    Unscaled {
        /// The operand.
        operand: String,
        /// The piece.
        piece: u16,
    },
    /// The sources of a reduction do not belong together.
    #[error("reduces {first} with {second}; expected {expected}")]
    Reduces {
        /// One source.
        first: String,
        /// The other.
        second: String,
        /// The rule.
        expected: &'static str,
    },
    /// A step finishes a value that must not be finished.
    #[error("finishes {found}; expected {expected}")]
    Finishes {
        /// The value.
        found: String,
        /// The rule.
        expected: &'static str,
    },
    /// A block of the output has a wrong value at the end.
    #[error(
        "block {block}, piece {piece}, turn {turn} of the output ends as {found}; expected {expected}"
    )]
    Output {
        /// The block.
        block: u32,
        /// The piece.
        piece: u16,
        /// The turn.
        turn: u32,
        /// The value at the end.
        found: String,
        /// The correct value.
        expected: String,
    },
    /// Two accesses race.
    #[error(
        "{access} {operand}, piece {piece}, while {other} may {other_access} it at the same time; expected a FIFO slot or a signal between the two"
    )]
    Race {
        /// Reads or writes.
        access: &'static str,
        /// The operand.
        operand: String,
        /// The piece.
        piece: u16,
        /// The location of the other access.
        other: String,
        /// Read or write.
        other_access: &'static str,
    },
    /// A step accesses memory of a peer whose launch may not have begun.
    #[error(
        "touches {operand} before rank {peer} has said that its launch has begun; expected to await a signal of it"
    )]
    TooEarly {
        /// The operand.
        operand: String,
        /// The peer.
        peer: u32,
    },
    /// A step accesses memory of a peer whose launch may have ended.
    #[error(
        "touches memory of rank {peer}, whose launch may end before that; expected a signal to it afterwards, which it awaits"
    )]
    TooLate {
        /// The peer.
        peer: u32,
    },
    /// Lanes wait for each other.
    #[error("waits for ever, with FIFOs of {depth} slots: {}", chain.join("; "))]
    Deadlock {
        /// Slots of a FIFO.
        depth: u32,
        /// The waits, from lane to lane.
        chain: Vec<String>,
    },
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} by {} with {} ranks: rank {}",
            self.collective, self.schedule, self.ranks, self.rank
        )?;
        if let Some((lane, channel)) = self.lane {
            write!(formatter, ", channel {channel}, lane {lane}")?;
        }
        if let Some(step) = self.step {
            write!(formatter, ", {step}")?;
        }
        Ok(())
    }
}

impl fmt::Display for StepAt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.phase {
            Phase::Prologue => write!(formatter, "prologue, step {}", self.step),
            Phase::Turn(turn) => write!(formatter, "turn {turn}, step {}", self.step),
            Phase::Epilogue => write!(formatter, "epilogue, step {}", self.step),
        }
    }
}

impl Location {
    /// The location of a whole program.
    pub(super) fn of(program: &Program) -> Self {
        Self {
            collective: program.collective,
            schedule: program.schedule,
            ranks: program.ranks,
            rank: program.rank,
            lane: None,
            step: None,
        }
    }
}

/// The name of a buffer.
pub(super) const fn name(buffer: BufferKind) -> &'static str {
    match buffer {
        BufferKind::Input => "input",
        BufferKind::Output => "output",
        BufferKind::Scratch => "scratch",
    }
}

/// A connection as seen from one end.
pub(super) fn connection(own: u32, there: ConnectionEnd, sends: bool) -> String {
    let (from, to) = if sends {
        (own, there.peer)
    } else {
        (there.peer, own)
    };
    let (channel, port) = (there.channel, there.port);
    format!("from rank {from} to rank {to} (channel {channel}, port {port})")
}

/// An operand in words.
pub(super) fn operand(own: u32, operand: &Operand, sends: bool) -> String {
    match operand {
        Operand::Local { buffer, block } => format!("block {block} of the own {}", name(*buffer)),
        Operand::Peer {
            rank,
            buffer,
            block,
        } => {
            format!("block {block} of rank {rank}'s {}", name(*buffer))
        }
        Operand::Multicast { buffer, block } => {
            format!("block {block} of all ranks' {}", name(*buffer))
        }
        Operand::Fifo(there) => format!("the FIFO {}", connection(own, *there, sends)),
    }
}

fn pieces(pieces: Pieces) -> String {
    if pieces.count == 1 {
        format!("piece {}", pieces.first)
    } else {
        format!("{} pieces from piece {}", pieces.count, pieces.first)
    }
}

/// The limits of a step, for errors.
pub(super) fn limits() -> String {
    format!(
        "expected at most {} sources and {0} destinations, at most {} of each from FIFOs, and at most {} signals each way",
        Step::MOST_OPERANDS,
        Step::MOST_FIFOS,
        Step::MOST_SIGNALS
    )
}
