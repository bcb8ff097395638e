//! Sources and destinations of steps.

use serde::Serialize;

use crate::JsonSchema;

/// The buffers of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BufferKind {
    /// The caller's input. Reading it in a reducing collective applies the pre-multiplication.
    Input,
    /// The caller's output.
    Output,
    /// Memory of the runtime; one window per block and channel.
    Scratch,
}

/// One end of a directed connection between two ranks.
///
/// A connection is identified by (sender, receiver, channel, port). It has a FIFO and, separately,
/// a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct ConnectionEnd {
    /// The rank at the other end.
    pub peer: u32,
    /// The channel.
    pub channel: u16,
    /// Distinguishes the connections of several lanes of one channel with the same peer, and those
    /// of transfers with different tags.
    pub port: u32,
}

/// A source or a destination of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(tag = "in", rename_all = "lowercase")]
pub enum Operand {
    /// A block of the rank's own memory.
    Local {
        /// Which memory.
        buffer: BufferKind,
        /// Which block of it.
        block: u32,
    },
    /// A block of a peer's memory, read or written in place.
    ///
    /// The peer must signal before the first access and be signalled after the last; verification
    /// checks both.
    Peer {
        /// Whose memory.
        #[serde(rename = "peer")]
        rank: u32,
        /// Which memory of the peer.
        buffer: BufferKind,
        /// Which block of it.
        block: u32,
    },
    /// A block of all ranks' memory: a source is their reduction, a destination stores the data at
    /// each rank.
    ///
    /// It is the only operand of its side, and counts as an access to every peer's memory.
    Multicast {
        /// Which memory: scratch, or callers' buffers at one place of all ranks' windows.
        buffer: BufferKind,
        /// Which block of it.
        block: u32,
    },
    /// A source is the next slot from the peer; a destination is the next free slot to the peer.
    Fifo(ConnectionEnd),
}

impl Operand {
    /// A block of the rank's own input.
    pub const fn input(block: u32) -> Self {
        Self::local(BufferKind::Input, block)
    }

    /// A block of the rank's own output.
    pub const fn output(block: u32) -> Self {
        Self::local(BufferKind::Output, block)
    }

    /// A block of the rank's own scratch memory.
    pub const fn scratch(block: u32) -> Self {
        Self::local(BufferKind::Scratch, block)
    }

    /// A block of the rank's own memory.
    pub const fn local(buffer: BufferKind, block: u32) -> Self {
        Self::Local { buffer, block }
    }

    /// A block of a peer's memory.
    pub const fn peer(rank: u32, buffer: BufferKind, block: u32) -> Self {
        Self::Peer {
            rank,
            buffer,
            block,
        }
    }

    /// A block of all ranks' memory.
    pub const fn everywhere(buffer: BufferKind, block: u32) -> Self {
        Self::Multicast { buffer, block }
    }

    /// Whether it is a FIFO.
    pub const fn is_fifo(&self) -> bool {
        matches!(self, Self::Fifo(_))
    }
}
