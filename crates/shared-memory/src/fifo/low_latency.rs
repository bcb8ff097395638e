//! The LL protocol: each 4 data bytes have a 4-byte flag in one atomic word, so no counter is
//! needed.
//!
//! The flag is the low half of the step number plus one. In the last steps before its low 31 bits
//! wrap around, the sender writes all flags of a slot: otherwise an old flag of a line without data
//! would look new later.

use program::Protocol;

use super::lines::Line;
use super::{TAG, tag};
use crate::sync::{Ordering, SharedWord};

/// The LL protocol.
#[derive(Debug, Clone, Copy)]
pub struct LowLatency;

impl Line for LowLatency {
    const PROTOCOL: Protocol = Protocol::Ll;
    const WORDS: usize = 1;
    const DATA_BYTES: usize = 4;
    /// The word: flag and data are loaded together.
    type Loaded = u64;

    #[inline(always)]
    fn flag(step: u64) -> u64 {
        tag(step)
    }

    /// In the last eight steps of every 2³¹. The kernels do the same.
    #[inline(always)]
    fn cleans(step: u64) -> bool {
        step & 0x7fff_fff8 == 0x7fff_fff8
    }

    #[inline(always)]
    unsafe fn store(line: &[SharedWord], flag: u64, source: *const u8, bytes: usize) {
        let mut data = [0; Self::DATA_BYTES];
        debug_assert!(bytes <= data.len());
        // SAFETY: `bytes` bytes can be read at `source`, at most as many as a line holds.
        unsafe { std::ptr::copy_nonoverlapping(source, data.as_mut_ptr(), bytes) };
        // Relaxed: data and flag are one word, and nothing else is ordered with them.
        line[0].store(
            flag | u64::from(u32::from_ne_bytes(data)),
            Ordering::Relaxed,
        );
    }

    #[inline(always)]
    fn store_flag(line: &[SharedWord], flag: u64) {
        line[0].store(flag, Ordering::Relaxed);
    }

    #[inline(always)]
    fn arrived(line: &[SharedWord], flag: u64) -> Option<u64> {
        let word = line[0].load(Ordering::Relaxed);
        (word & TAG == flag).then_some(word)
    }

    #[inline(always)]
    unsafe fn load(_line: &[SharedWord], word: u64, destination: *mut u8, bytes: usize) {
        let data = (word as u32).to_ne_bytes();
        debug_assert!(bytes <= data.len());
        // SAFETY: `bytes` bytes can be written at `destination`, at most as many as a line holds.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), destination, bytes) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::fifo::{FifoProtocol, Receiver, SLOTS, Sender};
    use crate::mapping::Mapping;
    use crate::sync::Words;

    #[test]
    fn flags_of_2_to_the_32_steps_ago_are_gone() {
        const LONG: usize = 400;
        let words = LowLatency::fifo_words(LONG);
        let mapping = Arc::new(Mapping::private("test", words * 8).unwrap());
        let words = Words::new(&mapping, 0..words * 8);
        let exchange = |first_step: u64, bytes: usize| {
            let mut sender = LowLatency::sender(&words, LONG, first_step);
            let mut receiver = LowLatency::receiver(&words, LONG, first_step);
            for _ in 0..SLOTS {
                assert!(!receiver.is_complete(bytes));
                assert!(sender.try_send_from(&[7; LONG][..bytes]));
                assert!(receiver.try_receive_into(&mut [0; LONG][..bytes]));
            }
        };
        // Long messages leave flags in all words; short ones long after them write all flags again.
        exchange(0, LONG);
        exchange((1 << 31) - 8, 4);
        // The flags are equal to those of the first steps: this checks for them before it sends.
        exchange(1 << 32, LONG);
    }
}
