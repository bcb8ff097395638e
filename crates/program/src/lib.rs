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
mod collective;
mod element;
mod expand;
pub mod lower;
mod names;
mod operand;
mod program;
mod schedule;
mod step;
pub mod verify;

pub use bind::{ALIGNMENT_BYTES, BindError};
pub use bound::{BoundLane, BoundOperand, BoundProgram, BoundStep, MessageSize};
pub use channels::{Channels, ChannelsError, Tree};
pub use collective::{Collective, Protocol};
pub use element::{ElementType, Reduction};
pub use names::UnknownName;
pub use operand::{BufferKind, ConnectionEnd, Operand};
pub use program::Program;
pub use schedule::{Schedule, Transfer};
pub use step::{Lane, Pieces, Step};
