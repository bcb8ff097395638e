//! A program with a message size: flat steps that a backend runs without computing, looking up or allocating anything.

use super::operand::{BufferKind, ConnectionEnd};

/// What a backend says about a message before a program is bound to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessageSize {
    /// Elements of one block.
    pub count: u64,
    /// Bytes of one element.
    pub element_bytes: u32,
    /// Data bytes that one FIFO slot takes under the protocol in use.
    pub slot_bytes: u32,
    /// Most bytes of a piece, where a program would allow longer ones; 0 is no bound.
    pub piece_bytes: u32,
}

/// The program of one rank, bound to a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundProgram {
    /// Bytes of one element.
    pub element_bytes: u32,
    /// Scratch memory that is needed, bytes.
    pub scratch_bytes: u64,
    /// Connections through whose FIFOs slots are received; [`BoundOperand::Fifo`] of a source is a place in it.
    pub receives: Vec<ConnectionEnd>,
    /// Connections through whose FIFOs slots are sent; [`BoundOperand::Fifo`] of a destination is a place in it.
    pub sends: Vec<ConnectionEnd>,
    /// Connections on which signals are awaited.
    pub waits: Vec<ConnectionEnd>,
    /// Connections on which signals are given.
    pub notifies: Vec<ConnectionEnd>,
    /// Whether the program, of any rank, reduces or stores at all ranks at once; a message may be so short that this rank does
    /// not.
    pub multicasts: bool,
    /// Ranks whose memory is accessed; [`BoundOperand::Peer`] names a place in it.
    pub peers: Vec<u32>,
    /// What runs concurrently.
    pub lanes: Vec<BoundLane>,
}

/// A bound lane: the prologue, the body in each of `turns` full turns, the last turn's body, the epilogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundLane {
    /// The channel whose share of the message it works on.
    pub channel: u16,
    /// Steps before the turns.
    pub prologue: Vec<BoundStep>,
    /// Steps of a full turn; in turn t, from 0, the strides of operands are added t times. Empty if there is no full turn.
    pub body: Vec<BoundStep>,
    /// Full turns.
    pub turns: u64,
    /// Steps of the shorter last turn; empty if there is none.
    pub last: Vec<BoundStep>,
    /// Steps after the turns.
    pub epilogue: Vec<BoundStep>,
}

/// A bound step. What would move no elements has no operands, at both ends of a FIFO: it only awaits and gives signals.
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
    /// Signals to await: places in [`BoundProgram::waits`], the first `wait_count` of them.
    pub waits: [u16; 4],
    /// How many signals are awaited.
    pub wait_count: u8,
    /// Signals to give: places in [`BoundProgram::notifies`], the first `notify_count` of them.
    pub notifies: [u16; 4],
    /// How many signals are given.
    pub notify_count: u8,
}

/// A bound operand. Offsets and strides are in bytes from the start of the named memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundOperand {
    /// No operand.
    None,
    /// One's own memory.
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
        /// Place in [`BoundProgram::peers`].
        peer: u16,
        /// Which memory of the peer.
        buffer: BufferKind,
        /// Bytes from its start in the first turn.
        offset: u64,
        /// Bytes further per turn.
        stride: u64,
    },
    /// The scratch memory of all ranks at once.
    Multicast {
        /// Bytes from its start in the first turn.
        offset: u64,
        /// Bytes further per turn.
        stride: u64,
    },
    /// A slot: place in [`BoundProgram::receives`] or [`BoundProgram::sends`].
    Fifo(u16),
}
