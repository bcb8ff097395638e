//! A program with a message size: a backend runs its steps without look-ups or allocation.

use super::operand::{BufferKind, ConnectionEnd};

/// The sizes that a program is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessageSize {
    /// Elements of one block.
    pub count: u64,
    /// Bytes of one element.
    pub element_bytes: u32,
    /// Data bytes that one FIFO slot takes under the protocol in use.
    pub slot_bytes: u32,
    /// The longest piece, bytes; 0 is no limit.
    pub piece_bytes: u32,
}

/// The program of one rank, bound to a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundProgram {
    /// Bytes of one element.
    pub element_bytes: u32,
    /// Scratch memory, bytes.
    pub scratch_bytes: u64,
    /// No rank puts more bytes into a slot. Equal on all ranks.
    pub most_slot_bytes: u32,
    /// Connections whose FIFOs are received from; [`BoundOperand::Fifo`] of a source is an index
    /// into it.
    pub receives: Vec<ConnectionEnd>,
    /// Connections whose FIFOs are sent to; [`BoundOperand::Fifo`] of a destination is an index
    /// into it.
    pub sends: Vec<ConnectionEnd>,
    /// Connections on which signals are awaited.
    pub waits: Vec<ConnectionEnd>,
    /// Connections on which signals are sent.
    pub notifies: Vec<ConnectionEnd>,
    /// Whether the program multicasts on any rank. With a short message, this rank itself may not.
    pub multicasts: bool,
    /// Whether multicasts read inputs, on any rank.
    pub multicasts_inputs: bool,
    /// Whether multicasts store to outputs, on any rank.
    pub multicasts_outputs: bool,
    /// Ranks whose memory is accessed; [`BoundOperand::Peer`] is an index into it.
    pub peers: Vec<u32>,
    /// The lanes; they run concurrently.
    pub lanes: Vec<BoundLane>,
}

/// A bound lane: the prologue, the body in each of `turns` full turns, the last turn's body, the
/// epilogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundLane {
    /// The channel whose share of the message it works on.
    pub channel: u16,
    /// Steps before the turns.
    pub prologue: Vec<BoundStep>,
    /// Steps of a full turn; in turn t, from 0, operands move by t strides. Empty without full
    /// turns.
    pub body: Vec<BoundStep>,
    /// Full turns.
    pub turns: u64,
    /// Steps of the shorter last turn; empty if there is none.
    pub last: Vec<BoundStep>,
    /// Steps after the turns.
    pub epilogue: Vec<BoundStep>,
}

/// A bound step. A step that moves no elements has no operands: it only waits and signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundStep {
    /// Elements that are moved.
    pub elements: u64,
    /// Sources: the first `source_count` of them.
    pub sources: [BoundOperand; 4],
    /// How many sources.
    pub source_count: u8,
    /// Destinations: the first `destination_count` of them.
    pub destinations: [BoundOperand; 4],
    /// How many destinations.
    pub destination_count: u8,
    /// Whether the result is final.
    pub finish: bool,
    /// Signals to await, as indices into [`BoundProgram::waits`]: the first `wait_count` of them.
    pub waits: [u16; 4],
    /// How many signals are awaited.
    pub wait_count: u8,
    /// Signals to send, as indices into [`BoundProgram::notifies`]: the first `notify_count` of
    /// them.
    pub notifies: [u16; 4],
    /// How many signals are sent.
    pub notify_count: u8,
}

/// A bound operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundOperand {
    /// No operand.
    None,
    /// The rank's own memory.
    Local {
        /// Which memory.
        buffer: BufferKind,
        /// Bytes from its start in the first turn.
        offset: u64,
        /// Bytes further per turn.
        stride: u64,
    },
    /// A peer's memory.
    Peer {
        /// Index into [`BoundProgram::peers`].
        peer: u16,
        /// Which memory of the peer.
        buffer: BufferKind,
        /// Bytes from its start in the first turn.
        offset: u64,
        /// Bytes further per turn.
        stride: u64,
    },
    /// The memory of all ranks at once.
    Multicast {
        /// Which memory.
        buffer: BufferKind,
        /// Bytes from its start in the first turn.
        offset: u64,
        /// Bytes further per turn.
        stride: u64,
    },
    /// A slot: index into [`BoundProgram::receives`] or [`BoundProgram::sends`].
    Fifo(u16),
}
