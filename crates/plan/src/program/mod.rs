//! What one rank does for one collective, in the vocabulary of NCCL's primitives.
//!
//! A [`Program`] is what every backend interprets. No backend knows what a ring is: an algorithm is only a function that
//! writes programs. A program has [`Lane`]s, which run concurrently and are bound together only by
//! FIFOs and signals; a lane has steps, each of which takes chunks from up to three peers, reduces them with local data,
//! stores the result, and sends it to up to three peers.
//!
//! # The message
//!
//! Buffers are made of *blocks* of `count` elements: one, or one per rank where the collective gathers or scatters. Every
//! lane works on its channel's share of each block, in *turns* over windows of that share, and a window is cut into
//! [`Program::pieces`] pieces. A step names blocks and a range of pieces; how long a piece is, and how many turns there
//! are, is known only when a message size is bound.

mod bind;
mod bound;
mod channels;
mod expand;
mod operand;
mod planned;
mod schedule;
mod step;

pub use bind::{ALIGNMENT_BYTES, BindError};
pub use bound::{BoundLane, BoundOperand, BoundProgram, BoundStep, Message};
pub use channels::{Channels, ChannelsError, Tree};
pub use operand::{Buffer, Connection, Operand};
pub use planned::transfer_channels;
pub use schedule::{Schedule, Transfer};
pub use step::{Lane, Pieces, Step};

use crate::Collective;

/// What one rank does for one collective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// What all ranks do together.
    pub collective: Collective,
    /// By which algorithm.
    pub schedule: Schedule,
    /// Ranks of the communicator.
    pub ranks: u32,
    /// Whose program it is.
    pub rank: u32,
    /// The rank that has or gets the message, of a transfer the one that sends; 0 where there is no root.
    pub root: u32,
    /// Whether the output is (the rank's block of) the input.
    pub in_place: bool,
    /// Channels among which each block is shared out.
    pub channels: u16,
    /// Pieces that a window of a block is cut into.
    pub pieces: u16,
    /// Most pieces that travel through a FIFO at once, in any rank's program; 0 if nothing does. With the size of a slot
    /// it bounds the window, so that all ranks have the same windows.
    pub fifo_pieces: u16,
    /// Blocks of scratch memory that each channel needs; a block of scratch holds one window.
    pub scratch_blocks: u16,
    /// What runs concurrently.
    pub lanes: Vec<Lane>,
}
