//! The layout of a kernel's FIFO in memory, and the lengths that the sending kernel stores.

use std::sync::Arc;

use program::Protocol;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::fifo::flow::Oversized;
use crate::fifo::{SLOTS, TAG, tag};
use crate::mapping::Mapping;
use crate::sync::{Ordering, Word, Words};

/// Counts, lengths and slots begin at multiples of this, bytes.
const BOUNDARY: usize = 128;

/// The layout of a FIFO in a mapping that both the host and a device access, in bytes. Offsets are
/// from the mapping's start and multiples of 128.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceFifo {
    /// The protocol.
    pub protocol: Protocol,
    /// Offset of the count of posted slots.
    pub tail: usize,
    /// Offset of the count of released slots.
    pub head: usize,
    /// Offset of the lengths, eight words.
    pub lengths: usize,
    /// Offset of the first slot.
    pub slots: usize,
    /// Distance between slots.
    pub stride: usize,
    /// Most data bytes of a slot.
    pub slot_bytes: usize,
    /// The first step of both ends.
    pub first_step: u64,
}

/// Bytes and data bytes of a protocol's line.
pub const fn line(protocol: Protocol) -> (usize, usize) {
    match protocol {
        Protocol::Simple => (8, 8),
        Protocol::Ll => (16, 8),
        Protocol::Ll128 => (128, 120),
    }
}

impl DeviceFifo {
    pub(in crate::fifo) fn words(
        &self,
        mapping: &Arc<Mapping>,
        offset: usize,
        bytes: usize,
    ) -> Words {
        Words::new(mapping, offset..offset + bytes)
    }

    pub(in crate::fifo) fn word(&self, mapping: &Arc<Mapping>, offset: usize) -> Word {
        self.words(mapping, offset, 8).word(0)
    }

    fn wrong(&self) -> Error {
        Error::Device {
            fifo: format!("{self:?}"),
        }
    }

    /// Checks that counts and lengths are within a mapping.
    pub(in crate::fifo) fn check_counts(&self, mapping: &Mapping) -> Result<(), Error> {
        let within = |offset: usize, bytes: usize| {
            let end = offset.checked_add(bytes);
            offset.is_multiple_of(BOUNDARY) && end.is_some_and(|end| end <= mapping.bytes())
        };
        let lengths = within(self.lengths, SLOTS as usize * 8);
        let countable = self.first_step < u64::MAX / 2;
        match within(self.tail, 8) && within(self.head, 8) && lengths && countable {
            true => Ok(()),
            false => Err(self.wrong()),
        }
    }

    /// Checks that slots fit their distance, and have at least a line.
    pub(in crate::fifo) fn check_stride(&self, stride: usize) -> Result<(), Error> {
        let (wire, data) = line(self.protocol);
        let bytes = self.slot_bytes.div_ceil(data).max(1).checked_mul(wire);
        match bytes.is_some_and(|bytes| bytes <= stride) && stride.is_multiple_of(BOUNDARY) {
            true => Ok(()),
            false => Err(self.wrong()),
        }
    }

    /// Checks that everything is within a mapping.
    pub(in crate::fifo) fn check(&self, mapping: &Mapping) -> Result<(), Error> {
        self.check_counts(mapping)?;
        self.check_stride(self.stride)?;
        let bytes = self.stride.checked_mul(SLOTS as usize);
        let end = bytes.and_then(|bytes| bytes.checked_add(self.slots));
        let within = end.is_some_and(|end| end <= mapping.bytes());
        match within && self.slots.is_multiple_of(BOUNDARY) {
            true => Ok(()),
            false => Err(self.wrong()),
        }
    }

    pub(in crate::fifo) fn slots(&self, mapping: &Arc<Mapping>) -> Words {
        self.words(mapping, self.slots, SLOTS as usize * self.stride)
    }

    /// The first word of a slot.
    pub(in crate::fifo) const fn start(&self, step: u64) -> usize {
        (step % SLOTS) as usize * (self.stride / 8)
    }
}

/// The slots' lengths, which the sending kernel stores.
#[derive(Debug)]
pub struct Lengths {
    words: Words,
    most_bytes: usize,
}

impl Lengths {
    /// The lengths of a FIFO in the mapping, whose kernel has not begun.
    pub fn new(mapping: &Arc<Mapping>, fifo: &DeviceFifo) -> Self {
        let words = fifo.words(mapping, fifo.lengths, SLOTS as usize * 8);
        for step in (0..SLOTS).map(|ahead| fifo.first_step.wrapping_add(ahead)) {
            // The previous round's tags, because 0 is the tag of a step, too.
            let before = tag(step.wrapping_sub(SLOTS));
            words.slice((step % SLOTS) as usize, 1)[0].store(before, Ordering::Release);
        }
        Self {
            words,
            most_bytes: fifo.slot_bytes,
        }
    }

    /// The length of a slot; `None` until it is posted.
    pub fn of(&self, step: u64) -> Result<Option<usize>, Oversized> {
        let word = &self.words.slice((step % SLOTS) as usize, 1)[0];
        let value = word.load(Ordering::Acquire);
        if value & TAG != tag(step) {
            return Ok(None);
        }
        let (bytes, most) = ((value & !TAG) as usize, self.most_bytes);
        match bytes <= most {
            true => Ok(Some(bytes)),
            false => Err(Oversized { bytes, most }),
        }
    }
}
