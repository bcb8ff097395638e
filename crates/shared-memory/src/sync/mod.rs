//! Atomic words of shared memory and the kernel's part in waiting, real and for the model checker.

#[cfg(not(loom))]
mod kernel;
#[cfg(loom)]
mod model;
#[cfg(not(loom))]
mod real;

#[cfg(not(loom))]
pub use kernel::{has_asymmetric_fences, heavy_fence, light_fence, sleep, wake, yield_now};
#[cfg(loom)]
pub use model::{
    Ordering, SharedWord, Word, Words, has_asymmetric_fences, heavy_fence, light_fence, load_bytes,
    pause, sleep, store_bytes, wake, yield_now,
};
#[cfg(not(loom))]
pub use real::{Ordering, SharedWord, Word, Words, load_bytes, pause, store_bytes};

/// Distance between words that different cores write: two cache lines, because processors fetch
/// lines in pairs.
pub const LINE_BYTES: usize = 128;

/// The same in 8-byte words.
pub const LINE_WORDS: usize = LINE_BYTES / 8;
