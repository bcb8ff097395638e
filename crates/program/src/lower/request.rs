//! The request to lower.

use crate::{Channels, Collective, Schedule, Transfer};

/// A collective for which programs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramRequest<'a> {
    /// The collective; [`send_recv`](super::send_recv()) writes transfers between two ranks.
    pub collective: Collective,
    /// The algorithm.
    pub schedule: Schedule,
    /// How meshes move data. Other algorithms than meshes and NVLS have [`Transfer::Fifo`] only.
    pub transfer: Transfer,
    /// The root; 0 if the collective has none.
    pub root: u32,
    /// Whether the output is (the rank's block of) the input.
    pub in_place: bool,
    /// The rings and trees. Algorithms that use neither take only the number of channels.
    pub channels: &'a Channels,
}
