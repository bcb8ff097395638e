//! The places of pieces: chunks of the caller's buffers and of scratch memory.

use program::{BufferKind, Pieces, Program};

use super::connections::Connections;
use super::format::BufferType;

/// The chunks of a rank.
#[derive(Debug)]
pub(super) struct Layout {
    channels: u32,
    pieces: u32,
    blocks: [u32; 2],
    /// Chunks of the program's scratch blocks, which are equal at all ranks.
    scratch_blocks: u32,
    /// Chunks of FIFOs.
    fifos: u32,
    /// Chunks of sums that are only sent on.
    sums: u32,
}

impl Layout {
    /// The chunks of the rank of a program.
    pub(super) fn of(program: &Program, connections: &Connections) -> Self {
        use program::Collective::{AllGather, ReduceScatter};
        let channels = u32::from(program.channels.max(1));
        let pieces = u32::from(program.pieces.max(1));
        let blocks = match program.collective {
            AllGather => [1, program.ranks],
            ReduceScatter => [program.ranks, 1],
            _ => [1, 1],
        };
        Self {
            channels,
            pieces,
            blocks,
            scratch_blocks: program.scratch_blocks * channels * pieces,
            fifos: connections.fifo_chunks(program.rank),
            sums: 0,
        }
    }

    /// Chunks of input and output.
    pub(super) fn caller_chunks(&self) -> [u32; 2] {
        self.blocks.map(|it| it * self.channels * self.pieces)
    }

    /// Chunks of scratch memory.
    pub(super) const fn scratch_chunks(&self) -> u32 {
        self.scratch_blocks + self.fifos + self.sums
    }

    /// The first chunk of pieces of a block.
    pub(super) fn chunk(&self, block: u32, channel: u16, pieces: Pieces) -> u32 {
        (block * self.channels + u32::from(channel)) * self.pieces + u32::from(pieces.first)
    }

    /// The first chunk of a place in a FIFO.
    pub(super) const fn fifo_chunk(&self, start: u32) -> u32 {
        self.scratch_blocks + start
    }

    /// New scratch chunks for a sum.
    pub(super) const fn sum(&mut self, chunks: u32) -> u32 {
        let first = self.scratch_chunks();
        self.sums += chunks;
        first
    }
}

/// MSCCL++'s word for a buffer.
pub(super) const fn buffer_type(kind: BufferKind) -> BufferType {
    match kind {
        BufferKind::Input => BufferType::Input,
        BufferKind::Output => BufferType::Output,
        BufferKind::Scratch => BufferType::Scratch,
    }
}
