//! The kernels' arguments: the structures of `kernels/arguments.h`. A test of the emulator compares
//! the layouts with those of the C++ compiler.

use bytemuck::{Pod, Zeroable};

/// Most sources of a step; also most destinations.
pub const MOST_OPERANDS: usize = 8;

/// Most signals that a step waits for; also most that it sends.
pub const MOST_SIGNALS: usize = 32;

/// Most blocks per lane.
pub const MOST_SHARES: u32 = 4;

/// Most parts that fit into the arguments of a launch.
pub const MOST_PARTS: usize = 33;

/// One end of a FIFO or of a signal. A signal has one per block of the lane.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct DeviceEnd {
    /// Address of the first slot.
    pub slots: u64,
    /// Bytes from one slot to the next.
    pub stride: u64,
    /// Address of the other end's count.
    pub theirs: u64,
    /// Address to which this end writes its count.
    pub mine: u64,
    /// This end's count.
    pub step: u64,
    /// The last value read from `theirs`.
    pub seen: u64,
    /// Address of the slots' lengths, if a proxy sends the slots; else 0.
    pub lengths: u64,
}

/// Bits of an offset in a region of memory; the region's number is above them.
pub const REGION_SHIFT: u32 = 56;

/// The buffers of a rank during a launch.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct DeviceBufferTable {
    /// The launch's number.
    pub launch: u64,
    /// Input, output and scratch: addresses, or regions with an offset ([`REGION_SHIFT`]). For
    /// multicasts, windows with an offset, or 0.
    pub buffers: [u64; 3],
}

/// A peer of a lane.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct DevicePeer {
    /// Address of its [`DeviceBufferTable`].
    pub table: u64,
    /// Address of the addresses where each region of its memory begins here; 0 if its table has
    /// addresses.
    pub regions: u64,
}

/// The kind of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum OperandKind {
    /// None.
    Nothing = 0,
    /// A buffer of the rank.
    Local = 1,
    /// A buffer of a peer.
    Peer = 2,
    /// A FIFO slot.
    Fifo = 3,
    /// The multicast address of the ranks' scratch memory.
    Everywhere = 4,
}

/// An operand.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct FlatOperand {
    /// An [`OperandKind`].
    pub kind: u32,
    /// 0 input, 1 output, 2 scratch.
    pub buffer: u16,
    /// Of a peer, its index among the lane's.
    pub peer: u16,
    /// The index of a FIFO's [`DeviceEnd`] in the lane, or the address of the multicast scratch
    /// memory.
    pub place: u64,
    /// Bytes from the start of the buffer.
    pub offset: u64,
    /// Bytes to add per turn.
    pub stride: u64,
}

/// A step.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct FlatStep {
    /// Bytes to move.
    pub bytes: u64,
    /// Number of sources.
    pub source_count: u8,
    /// Number of destinations.
    pub destination_count: u8,
    /// Number of signals to wait for.
    pub wait_count: u8,
    /// Number of signals to send.
    pub notify_count: u8,
    /// Whether to divide the result.
    pub finish: u8,
    /// Bit i: multiply source i by the scalar.
    pub pre_multiply: u8,
    /// Whether any operand is a peer's.
    pub reaches: u8,
    /// 1: loads from the multicast address, 2: stores to it, 4: another step of the program does.
    pub multicast: u8,
    /// Sources, then destinations.
    pub operands: [FlatOperand; 2 * MOST_OPERANDS],
    /// Indices of the lane's [`DeviceEnd`]s to wait for.
    pub waits: [u32; MOST_SIGNALS],
    /// Indices of the lane's [`DeviceEnd`]s to notify.
    pub notifies: [u32; MOST_SIGNALS],
}

/// A lane: a sequence of steps for one or several blocks.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct FlatLane {
    /// Index of the first step.
    pub first: u32,
    /// Steps of the prologue.
    pub prologue: u32,
    /// Steps of a full turn.
    pub body: u32,
    /// Steps of the last turn and of the epilogue.
    pub epilogue: u32,
    /// Number of peers whose memory the lane accesses.
    pub peer_count: u32,
    /// Number of ends of FIFOs and signals that the lane uses.
    pub end_count: u32,
    /// Index of the lane to run instead if the buffers of all ranks are at one place of a window;
    /// 0: none.
    pub registered: u32,
    /// Of a lane for such buffers, which must be there: 1 input, 2 output.
    pub needed: u32,
    /// Full turns.
    pub turns: u64,
    /// Address of these [`DevicePeer`]s.
    pub peers: u64,
    /// Address of the addresses of the lane's [`DeviceEnd`]s.
    pub ends: u64,
}

/// A program with the buffers of a launch. Addresses are device addresses.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
pub struct LaunchPart {
    /// Address of the [`FlatLane`]s.
    pub lanes: u64,
    /// Address of the [`FlatStep`]s.
    pub steps: u64,
    /// Addresses of input, output and scratch.
    pub buffers: [u64; 3],
    /// Address of the own [`DeviceBufferTable`]; 0 if no peer accesses this rank's buffers.
    pub buffer_table: u64,
    /// The launch's number.
    pub launch: u64,
    /// The scalar, one element in the low bytes.
    pub scalar: u64,
    /// Address of each block's begin and end times; 0 if not recorded.
    pub profile: u64,
    /// What is subtracted from the addresses of the buffers in the buffer table: 0, or where the
    /// buffer's region begins, less the region's number.
    pub origins: [u64; 3],
    /// Number of lanes.
    pub lane_count: u32,
    /// A [`program::Protocol`], by number.
    pub protocol: u32,
    /// 0: sum, 1: product, 2: minimum, 3: maximum.
    pub operation: u32,
    /// Divisor of averages.
    pub divisor: u32,
    /// Blocks per lane.
    pub shares: u32,
    /// Unused.
    pub padding: u32,
}

/// The arguments of a kernel.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launch {
    /// Address of all parts if they do not fit `parts`; else 0.
    pub more: u64,
    /// Address of a 32-bit word that is not 0 when kernels must end early.
    pub abort: u64,
    /// Number of parts.
    pub count: u32,
    /// Unused.
    pub padding: u32,
    /// The parts.
    pub parts: [LaunchPart; MOST_PARTS],
}

impl Default for Launch {
    fn default() -> Self {
        Self {
            more: 0,
            abort: 0,
            count: 0,
            padding: 0,
            parts: [LaunchPart::default(); MOST_PARTS],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_fit_a_kernel() {
        // CUDA's limit on kernel arguments that every device supports, bytes.
        assert!(size_of::<Launch>() <= 4096);
    }
}
