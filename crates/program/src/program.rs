//! The program of one rank.

use crate::collective::Collective;
use crate::schedule::Schedule;
use crate::step::Lane;

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
