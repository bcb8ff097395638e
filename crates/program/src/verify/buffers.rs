//! The blocks of each rank in a collective, and what its output must contain.

use crate::Collective;
use crate::{BufferKind, Program};

/// How many blocks the buffers of a rank have.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockCounts {
    pub input: u32,
    pub output: u32,
    pub scratch: u32,
}

impl BlockCounts {
    /// The blocks of a program's rank. `receiver` is the receiving rank of a transfer.
    pub(super) fn of(program: &Program, receiver: u32) -> Self {
        let ranks = program.ranks;
        let root = program.rank == program.root;
        let at_root = |blocks| if root { blocks } else { 0 };
        let (input, output) = match program.collective {
            Collective::AllReduce => (1, 1),
            Collective::Broadcast => (at_root(1), 1),
            Collective::Reduce => (1, at_root(1)),
            Collective::AllGather => (1, ranks),
            Collective::ReduceScatter => (ranks, 1),
            Collective::AllToAll => (ranks, ranks),
            Collective::Gather => (1, at_root(ranks)),
            Collective::Scatter => (at_root(ranks), 1),
            Collective::SendRecv => (at_root(1), u32::from(program.rank == receiver)),
        };
        Self {
            input,
            output,
            scratch: program.scratch_blocks,
        }
    }

    pub(super) const fn blocks(&self, buffer: BufferKind) -> u32 {
        match buffer {
            BufferKind::Input => self.input,
            BufferKind::Output => self.output,
            BufferKind::Scratch => self.scratch,
        }
    }
}

/// The block of the input that is the same memory as a block of the output (in place).
pub(super) fn alias(program: &Program, memory: &BlockCounts, block: u32) -> Option<u32> {
    let rank = program.rank;
    if !program.in_place || memory.input == 0 {
        return None;
    }
    match program.collective {
        Collective::AllReduce
        | Collective::Broadcast
        | Collective::Reduce
        | Collective::SendRecv => Some(block),
        Collective::AllGather | Collective::Gather => (block == rank).then_some(0),
        Collective::ReduceScatter | Collective::Scatter => Some(rank),
        Collective::AllToAll => Some(block),
    }
}

/// The expected content of a block of the output: a block of a rank's input, or of all inputs if
/// the rank is `None`.
pub(super) const fn expected(program: &Program, block: u32) -> (u32, Option<u32>) {
    match program.collective {
        Collective::AllReduce | Collective::Reduce => (0, None),
        Collective::ReduceScatter => (program.rank, None),
        Collective::Broadcast | Collective::SendRecv => (0, Some(program.root)),
        Collective::AllGather | Collective::Gather => (0, Some(block)),
        Collective::AllToAll => (program.rank, Some(block)),
        Collective::Scatter => (program.rank, Some(program.root)),
    }
}
