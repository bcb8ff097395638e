//! Lengths of FIFO slots.

use std::fmt;

use program::Protocol;
use serde::{Deserialize, Serialize};

/// Data bytes of a FIFO slot, by protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SlotBytes {
    /// LL.
    pub ll: u32,
    /// LL128.
    pub ll128: u32,
    /// Simple.
    pub simple: u32,
}

impl SlotBytes {
    /// The bytes for a protocol.
    pub const fn of(&self, protocol: Protocol) -> u32 {
        match protocol {
            Protocol::Ll => self.ll,
            Protocol::Ll128 => self.ll128,
            Protocol::Simple => self.simple,
        }
    }
}

impl fmt::Display for SlotBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ll, ll128, simple } = self;
        write!(
            f,
            "{ll}-byte slots (LL), {ll128}-byte slots (LL128) and {simple}-byte slots (Simple)"
        )
    }
}

/// Shorter slots for short messages, data bytes. A sweep over message sizes makes new FIFOs for
/// each class, whose lengths add up to little more than the longest.
const SLOT_CLASSES: [u32; 3] = [256, 4 << 10, 32 << 10];

/// Data bytes of the slots for a program that puts at most `most` into one. `full` is the backend's
/// length.
pub(crate) fn slot_class(most: u32, full: u32) -> u32 {
    let class = SLOT_CLASSES.into_iter().find(|class| most <= *class);
    class.map_or(full, |class| class.min(full))
}
