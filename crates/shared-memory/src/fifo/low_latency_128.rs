//! The LL128 protocol: lines of words, the last of which is the line's flag.
//!
//! The flag is the step number plus one in 64 bits, so it never wraps around. It is stored with
//! release after the line's data and loaded with acquire before it, so the data is ordinary memory.
//! Unlike NCCL's 128-byte lines on GPUs, this does not need a processor that stores lines whole,
//! and any length of line is possible. [`LowLatency128`] has the fastest one, a cache line: a
//! message of up to 56 bytes is one transfer between two cores.

use program::Protocol;

use super::lines::Line;
use crate::sync::{Ordering, SharedWord, load_bytes, store_bytes};

/// The LL128 protocol with lines of `WORDS` words, a power of two.
#[derive(Debug, Clone, Copy)]
pub struct LowLatencyLine<const WORDS: usize>;

/// The LL128 protocol with the line that is fastest on CPUs: 64 bytes, 56 of them data.
pub type LowLatency128 = LowLatencyLine<8>;

impl<const WORDS: usize> Line for LowLatencyLine<WORDS> {
    const PROTOCOL: Protocol = Protocol::Ll128;
    const WORDS: usize = WORDS;
    const DATA_BYTES: usize = (WORDS - 1) * 8;
    type Loaded = ();

    #[inline(always)]
    fn flag(step: u64) -> u64 {
        step.wrapping_add(1)
    }

    #[inline(always)]
    unsafe fn store(line: &[SharedWord], flag: u64, source: *const u8, bytes: usize) {
        // SAFETY: `bytes` bytes can be read at `source`, at most as many as a line holds; the line
        // is this end's until the flag is stored.
        unsafe { store_bytes(&line[..WORDS - 1], source, bytes) };
        Self::store_flag(line, flag);
    }

    #[inline(always)]
    fn store_flag(line: &[SharedWord], flag: u64) {
        // Release: the line's data is stored before its flag.
        line[WORDS - 1].store(flag, Ordering::Release);
    }

    #[inline(always)]
    fn arrived(line: &[SharedWord], flag: u64) -> Option<()> {
        // Acquire: the line's data is loaded after its flag.
        (line[WORDS - 1].load(Ordering::Acquire) == flag).then_some(())
    }

    #[inline(always)]
    unsafe fn load(line: &[SharedWord], (): (), destination: *mut u8, bytes: usize) {
        // SAFETY: the flag hands the line to this end, and the slot is not released; `bytes` bytes
        // can be written at `destination`, at most as many as a line holds.
        unsafe { load_bytes(&line[..WORDS - 1], destination, bytes) };
    }
}
