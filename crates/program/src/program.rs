//! The program of one rank.

use serde::Serialize;

use crate::JsonSchema;
use crate::collective::Collective;
use crate::names::by_name;
use crate::operand::{BufferKind, Operand};
use crate::schedule::Schedule;
use crate::step::{Lane, Step};

/// The steps of one rank for a collective.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Program {
    /// The collective.
    pub collective: Collective,
    /// The algorithm.
    #[serde(rename = "algorithm", serialize_with = "by_name::serialize")]
    #[schemars(with = "String")]
    pub schedule: Schedule,
    /// Ranks of the communicator.
    pub ranks: u32,
    /// The rank that runs the program.
    pub rank: u32,
    /// The root, or the sender of a transfer; 0 if the collective has no root.
    pub root: u32,
    /// Whether the collective is in place: the output is (the rank's block of) the input.
    pub in_place: bool,
    /// Channels that share each block of the message.
    pub channels: u16,
    /// The part of each block that a channel has, relative to the others; empty if all are equal.
    #[serde(skip)]
    pub shares: Vec<u32>,
    /// Pieces into which each window of a channel's share is cut.
    pub pieces: u16,
    /// Most pieces that a FIFO slot holds, in any rank's program; 0 without FIFOs.
    ///
    /// With the size of a slot it bounds the window, so that all ranks have the same windows.
    #[serde(skip)]
    pub fifo_pieces: u16,
    /// Scratch blocks of each channel; a scratch block holds one window.
    pub scratch_blocks: u32,
    /// The lanes; they run concurrently.
    pub lanes: Vec<Lane>,
}

impl Program {
    /// Whether a step has a multicast of such a buffer.
    pub(crate) fn multicasts(&self, of: impl Fn(BufferKind) -> bool) -> bool {
        let steps = self.lanes.iter().flat_map(Lane::steps);
        let mut operands = steps.flat_map(Step::operands);
        operands.any(|it| matches!(it, Operand::Multicast { buffer, .. } if of(*buffer)))
    }
}
