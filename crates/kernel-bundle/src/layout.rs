//! What the host tells the kernels: the structures of `kernels/arguments.h`. A test of the emulator compares them with what
//! the other compiler makes of those.

use bytemuck::{Pod, Zeroable};

/// Most sources, and most destinations, waits and notifies, of a step.
pub const MOST_OPERANDS: usize = 4;

/// Most blocks that carry out a lane together.
pub const MOST_SHARES: u32 = 4;

/// Parts that fit into the arguments of a launch.
pub const MOST_PARTS: usize = 36;

/// One end of a FIFO or of a signal. Where several blocks carry out a lane, an end of a signal is as many of these in a row.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct End {
    /// Address of the first slot.
    pub slots: u64,
    /// Bytes from one slot to the next.
    pub stride: u64,
    /// Address of what the other end counts.
    pub theirs: u64,
    /// Address where this end's count is told.
    pub mine: u64,
    /// This end's count.
    pub step: u64,
    /// The last that was seen of theirs.
    pub seen: u64,
    /// Address where the length of each slot is told, if the host carries them away; else 0.
    pub lengths: u64,
}

/// Where the buffers of a rank are during a launch.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct BufferTable {
    /// The number of the launch.
    pub launch: u64,
    /// Addresses of input, output, scratch.
    pub buffers: [u64; 3],
}

/// What an operand is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum OperandKind {
    /// None.
    Nothing = 0,
    /// One's own memory.
    Local = 1,
    /// A peer's memory.
    Peer = 2,
    /// A slot.
    Fifo = 3,
    /// The scratch memory of all ranks.
    Everywhere = 4,
}

/// An operand.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Operand {
    /// An [`OperandKind`].
    pub kind: u32,
    /// 0 input, 1 output, 2 scratch.
    pub buffer: u32,
    /// An address: of the [`End`] of a FIFO, of the [`BufferTable`] of a peer, or of the multicast
    /// object over all scratch memory.
    pub place: u64,
    /// Bytes from the start of the buffer.
    pub offset: u64,
    /// Bytes further per turn.
    pub stride: u64,
}

/// A step.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Step {
    /// Bytes that are moved.
    pub bytes: u64,
    /// How many sources.
    pub source_count: u8,
    /// How many destinations.
    pub destination_count: u8,
    /// How many signals are awaited.
    pub wait_count: u8,
    /// How many are given.
    pub notify_count: u8,
    /// Whether the result is divided.
    pub finish: u8,
    /// Bit i: source i is multiplied by the scalar.
    pub pre_multiply: u8,
    /// Whether an operand is a peer's.
    pub reaches: u8,
    /// 1: from all ranks, 2: to all ranks, 4: other steps of the program do so.
    pub multicast: u8,
    /// Sources, then destinations.
    pub operands: [Operand; 2 * MOST_OPERANDS],
    /// Addresses of the [`End`]s of signals that are awaited.
    pub waits: [u64; MOST_OPERANDS],
    /// Of signals that are given.
    pub notifies: [u64; MOST_OPERANDS],
}

/// Steps in a row.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Lane {
    /// Index of the first step.
    pub first: u32,
    /// Steps of the prologue.
    pub prologue: u32,
    /// Steps of a full turn.
    pub body: u32,
    /// Steps of the last turn.
    pub last: u32,
    /// Steps of the epilogue.
    pub epilogue: u32,
    /// Nothing.
    pub padding: u32,
    /// Full turns.
    pub turns: u64,
}

/// A program with the memory of a launch. Addresses are the machine's.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct Part {
    /// Address of the [`Lane`]s.
    pub lanes: u64,
    /// Address of the [`Step`]s.
    pub steps: u64,
    /// Addresses of input, output, scratch.
    pub buffers: [u64; 3],
    /// Address of the own [`BufferTable`]; 0 if no peer accesses this rank's buffers.
    pub buffer_table: u64,
    /// Number of the launch.
    pub launch: u64,
    /// An element in the low bytes.
    pub scalar: u64,
    /// Address of two times per block; 0 if nobody asks.
    pub profile: u64,
    /// What is taken from the addresses on the buffer table: where the memory begins that other processes map, or 0.
    pub window: u64,
    /// Lanes.
    pub lane_count: u32,
    /// A [`program::Protocol`], by number.
    pub protocol: u32,
    /// 0 sum, 1 product, 2 minimum, 3 maximum.
    pub operation: u32,
    /// By what results are divided.
    pub divisor: u32,
    /// Blocks that carry out each lane together.
    pub shares: u32,
    /// Nothing.
    pub padding: u32,
}

/// The arguments of a kernel.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// Address of all parts, if they are not in `parts`.
    pub more: u64,
    /// Address of a 32-bit word that is not 0 when the launch is given up.
    pub abort: u64,
    /// Parts.
    pub count: u32,
    /// Nothing.
    pub padding: u32,
    /// The parts.
    pub parts: [Part; MOST_PARTS],
}

impl Default for Launch {
    fn default() -> Self {
        Self {
            more: 0,
            abort: 0,
            count: 0,
            padding: 0,
            parts: [Part::default(); MOST_PARTS],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_fit_a_kernel() {
        // What all devices take as arguments of a kernel, bytes.
        assert!(size_of::<Launch>() <= 4096);
    }
}
