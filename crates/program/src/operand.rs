//! Where a step takes data from and puts it to.

/// Memory that a rank's program names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BufferKind {
    /// What the caller gave. Reading it in a reducing collective applies the operation's pre-multiplication.
    Input,
    /// What the caller gets.
    Output,
    /// Memory of the runtime, one window long per block and channel.
    Scratch,
}

/// One end of a directed connection between two ranks, as the program of one of them names it.
///
/// A connection is known by (sender, receiver, channel, port). It carries FIFO slots and, counted apart, signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionEnd {
    /// The rank at the other end.
    pub peer: u32,
    /// The channel.
    pub channel: u16,
    /// Tells apart the connections that lanes of one channel have with the same peer.
    pub port: u8,
}

/// A source or a destination of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operand {
    /// A block of one's own.
    Local {
        /// Which memory.
        buffer: BufferKind,
        /// Which block of it.
        block: u32,
    },
    /// A block of a peer, read or written where it is. Before the first access a signal of the peer must have come, and
    /// after the last one the peer must get a signal; verification insists on both.
    Peer {
        /// Whose memory.
        rank: u32,
        /// Which memory of the peer.
        buffer: BufferKind,
        /// Which block of it.
        block: u32,
    },
    /// A block of the scratch memory of all ranks at once: as a source their reduction, as a destination the same data in
    /// each. It is the only operand of its side, and counts as an access to every peer's memory.
    Multicast {
        /// Which block.
        block: u32,
    },
    /// As a source, the next slot that the peer sent; as a destination, the next free slot towards the peer.
    Fifo(ConnectionEnd),
}

impl Operand {
    /// A block of one's own input.
    pub const fn input(block: u32) -> Self {
        Self::local(BufferKind::Input, block)
    }

    /// A block of one's own output.
    pub const fn output(block: u32) -> Self {
        Self::local(BufferKind::Output, block)
    }

    /// A block of one's own scratch memory.
    pub const fn scratch(block: u32) -> Self {
        Self::local(BufferKind::Scratch, block)
    }

    /// A block of one's own.
    pub const fn local(buffer: BufferKind, block: u32) -> Self {
        Self::Local { buffer, block }
    }

    /// A block of a peer.
    pub const fn peer(rank: u32, buffer: BufferKind, block: u32) -> Self {
        Self::Peer {
            rank,
            buffer,
            block,
        }
    }

    /// Whether it is a FIFO.
    pub const fn is_fifo(&self) -> bool {
        matches!(self, Self::Fifo(_))
    }
}
