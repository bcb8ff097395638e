//! Which programs are wanted.

use crate::{Channels, Collective, Schedule, Transfer};

/// What programs are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramRequest<'a> {
    /// What all ranks do together; not a transfer between two, for which there is [`send_recv`](super::send_recv).
    pub collective: Collective,
    /// By which algorithm.
    pub schedule: Schedule,
    /// How meshes move data. Other algorithms know only [`Transfer::Fifo`].
    pub transfer: Transfer,
    /// The rank that has or gets the message; 0 where there is no root.
    pub root: u32,
    /// Whether the output is (the rank's block of) the input.
    pub in_place: bool,
    /// The rings and trees. Algorithms that need neither take from here only how many channels there are.
    pub channels: &'a Channels,
}
