//! The LL128 protocol: a line of words, the last of which is the flag of the line.
//!
//! The flag is the step number plus one, 64 bits wide, so it never comes round. It is stored with release after the
//! line's data and loaded with acquire before it, which makes the data ordinary memory: no processor has to keep a line
//! together, as NCCL's 128-byte lines need on GPUs, and a line can be as long as is fastest. That is one cache line
//! here, [`LowLatency128`]: a message of up to 56 bytes is one transfer between two cores.

use program::Protocol;

use super::lines::Line;
use crate::sync::{Ordering, SharedWord, load_bytes, store_bytes};

/// The LL128 protocol with lines of `WORDS` words, a power of two.
#[derive(Debug, Clone, Copy)]
pub struct LowLatencyLine<const WORDS: usize>;

/// The LL128 protocol with the line that is fastest on CPUs: 64 bytes, of which 56 are data.
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
        // SAFETY: the caller lends as many bytes, at most a line's; the line is ours until the flag is stored.
        unsafe { store_bytes(&line[..WORDS - 1], source, bytes) };
        Self::store_flag(line, flag);
    }

    #[inline(always)]
    fn store_flag(line: &[SharedWord], flag: u64) {
        // Release: the line's data comes before its flag.
        line[WORDS - 1].store(flag, Ordering::Release);
    }

    #[inline(always)]
    fn arrived(line: &[SharedWord], flag: u64) -> Option<()> {
        // Acquire: the line's data comes with its flag.
        (line[WORDS - 1].load(Ordering::Acquire) == flag).then_some(())
    }

    #[inline(always)]
    unsafe fn load(line: &[SharedWord], (): (), destination: *mut u8, bytes: usize) {
        // SAFETY: the flag says that the line was handed to us, and the slot is not released; the caller lends room for as
        // many bytes, at most a line's.
        unsafe { load_bytes(&line[..WORDS - 1], destination, bytes) };
    }
}
