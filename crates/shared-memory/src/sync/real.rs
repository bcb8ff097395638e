//! Words of a mapping.

use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

pub use std::sync::atomic::{AtomicU64, AtomicU64 as SharedWord, Ordering};

use super::LINE_BYTES;
use crate::mapping::Mapping;

/// Tells the processor that this is a busy loop.
#[inline]
pub fn pause() {
    std::hint::spin_loop();
}

/// A run of words in a mapping, which it keeps alive.
#[derive(Debug, Clone)]
pub struct Words {
    base: NonNull<AtomicU64>,
    count: usize,
    mapping: Arc<Mapping>,
}

// SAFETY: atomics may be used from all threads, and the mapping stays as long as this does.
unsafe impl Send for Words {}
// SAFETY: as above.
unsafe impl Sync for Words {}

impl Words {
    /// The words of `bytes` in a mapping.
    ///
    /// # Panics
    /// The range is not in the mapping or not aligned to [`LINE_BYTES`]; callers check that.
    pub fn new(mapping: &Arc<Mapping>, bytes: Range<usize>) -> Self {
        assert!(bytes.start <= bytes.end && bytes.end <= mapping.bytes());
        assert!(bytes.start.is_multiple_of(LINE_BYTES));
        // SAFETY: the start is in the mapping, whose address is a multiple of the page size.
        let base = unsafe { mapping.base().add(bytes.start) }.cast();
        Self {
            base,
            count: (bytes.end - bytes.start) / 8,
            mapping: Arc::clone(mapping),
        }
    }

    /// Some of these words.
    pub fn part(&self, range: Range<usize>) -> Self {
        let base = NonNull::from(&self.slice(range.start, range.end - range.start)[0]);
        Self {
            base,
            count: range.end - range.start,
            mapping: Arc::clone(&self.mapping),
        }
    }

    /// `count` words from `first`.
    #[inline]
    pub fn slice(&self, first: usize, count: usize) -> &[AtomicU64] {
        assert!(first <= self.count && count <= self.count - first);
        // SAFETY: the range was checked. The memory is mapped as long as `mapping` lives, and is
        // used as atomics, or as bytes by the end that owns it at that time by the protocol.
        unsafe { slice::from_raw_parts(self.base.as_ptr().add(first), count) }
    }

    /// One word, which needs no check when it is used.
    pub fn word(&self, index: usize) -> Word {
        Word {
            pointer: NonNull::from(&self.slice(index, 1)[0]),
            _mapping: Arc::clone(&self.mapping),
        }
    }

    /// The address of the words from `first`. The protocol decides who may access it.
    #[inline]
    pub fn address(&self, first: usize) -> *mut u8 {
        debug_assert!(first <= self.count);
        self.base.as_ptr().wrapping_add(first).cast()
    }
}

/// One word of a mapping, which it keeps alive.
#[derive(Debug, Clone)]
pub struct Word {
    pointer: NonNull<AtomicU64>,
    _mapping: Arc<Mapping>,
}

// SAFETY: as for `Words`.
unsafe impl Send for Word {}
// SAFETY: as for `Words`.
unsafe impl Sync for Word {}

impl Deref for Word {
    type Target = AtomicU64;

    #[inline]
    fn deref(&self) -> &AtomicU64 {
        // SAFETY: the word is within the mapping, which lives as long as this does.
        unsafe { self.pointer.as_ref() }
    }
}

/// Stores bytes into words that nobody else accesses.
///
/// # Safety
/// `bytes` bytes can be read at `source`, and no other thread accesses the words until a later
/// release store hands them over.
#[inline(always)]
pub unsafe fn store_bytes(words: &[AtomicU64], source: *const u8, bytes: usize) {
    debug_assert!(bytes <= words.len() * 8);
    let to = words.as_ptr().cast_mut().cast::<u8>();
    // SAFETY: atomics are memory that may be written, only the caller accesses them, and both
    // ranges have this length.
    unsafe { std::ptr::copy_nonoverlapping(source, to, bytes) };
}

/// Loads bytes from words that nobody else writes.
///
/// # Safety
/// `bytes` bytes can be written at `destination`, and no other thread writes the words until a
/// later release store hands them back.
#[inline(always)]
pub unsafe fn load_bytes(words: &[AtomicU64], destination: *mut u8, bytes: usize) {
    debug_assert!(bytes <= words.len() * 8);
    // SAFETY: as in `store_bytes`.
    unsafe { std::ptr::copy_nonoverlapping(words.as_ptr().cast(), destination, bytes) };
}
