//! The steps of each rank for a collective, in the vocabulary of NCCL's primitives.
//!
//! An algorithm ([`lower`]) writes the [`Program`] of every rank, a proof ([`verify`]) checks them
//! together, and binding gives them a message size. Every backend interprets bound programs, and no
//! backend knows what a ring is.
//!
//! A program has [`Lane`]s, which run concurrently and depend on each other only by FIFOs and
//! signals. A lane has steps. A step takes chunks from up to three peers, reduces them with local
//! data, stores the result, and sends it to up to three peers.
//!
//! # The message
//!
//! A buffer has *blocks* of `count` elements: one block, or one per rank if the collective gathers
//! or scatters. Every lane works on its channel's share of each block, in *turns* over windows of
//! that share. A window has [`Program::pieces`] pieces. A step names blocks and a range of pieces.
//! Binding decides how long a piece is and how many turns there are.

mod bind;
mod bound;
mod channels;
mod collective;
mod element;
mod expand;
mod forest;
pub mod lower;
mod names;
mod operand;
mod program;
mod schedule;
pub mod size;
mod step;
mod tree;
pub mod verify;

#[cfg(not(feature = "schema"))]
use no_schema::JsonSchema;
#[cfg(feature = "schema")]
use schemars::JsonSchema;

pub use bind::{ALIGNMENT_BYTES, BindError};
pub use bound::{BoundLane, BoundOperand, BoundProgram, BoundStep, MessageSize};
pub use channels::Channels;
pub use collective::{Collective, Protocol};
pub use element::{ElementType, Reduction};
pub use forest::{Forest, ForestChannel, ForestTree};
pub use names::{UnknownName, by_name};
pub use operand::{BufferKind, ConnectionEnd, Operand};
pub use program::Program;
pub use schedule::{Schedule, Transfer};
pub use step::{Lane, Pieces, Step};
pub use tree::{ChannelsError, Tree};
