//! Words, sleeping and fences under the model checker loom.
//!
//! Every word is an atomic and a separate cell for data that is ordinary memory in reality. Loom
//! reports any two accesses to a cell without an order, so it finds data that is read or written
//! too early even if the value is right. The kernel's sleeping is a condition variable without a
//! timeout, so a lost wake-up is a deadlock.

use std::ops::{Deref, Range};
use std::sync::Arc;
use std::time::Duration;

use loom::cell::UnsafeCell;
use loom::sync::{Condvar, Mutex};

pub use loom::sync::atomic::{AtomicU64, Ordering};

/// Lets the other threads of the model run.
pub fn pause() {
    loom::thread::yield_now();
}

/// As [`pause`].
pub fn yield_now() {
    loom::thread::yield_now();
}

/// A word that is used as an atomic or as ordinary memory.
#[derive(Debug)]
pub struct SharedWord {
    atomic: AtomicU64,
    data: UnsafeCell<u64>,
}

impl Deref for SharedWord {
    type Target = AtomicU64;

    fn deref(&self) -> &AtomicU64 {
        &self.atomic
    }
}

#[derive(Debug)]
struct Memory {
    words: Vec<SharedWord>,
    lock: Mutex<()>,
    woken: Condvar,
}

/// A run of words.
#[derive(Debug, Clone)]
pub struct Words {
    memory: Arc<Memory>,
    first: usize,
    count: usize,
}

impl Words {
    /// New memory.
    pub fn zeroed(count: usize) -> Self {
        let words = (0..count).map(|_| SharedWord {
            atomic: AtomicU64::new(0),
            data: UnsafeCell::new(0),
        });
        let memory = Memory {
            words: words.collect(),
            lock: Mutex::new(()),
            woken: Condvar::new(),
        };
        Self {
            memory: Arc::new(memory),
            first: 0,
            count,
        }
    }

    /// Some of these words.
    pub fn part(&self, range: Range<usize>) -> Self {
        assert!(range.end <= self.count);
        Self {
            memory: Arc::clone(&self.memory),
            first: self.first + range.start,
            count: range.end - range.start,
        }
    }

    /// `count` words from `first`.
    pub fn slice(&self, first: usize, count: usize) -> &[SharedWord] {
        &self.memory.words[self.first..self.first + self.count][first..first + count]
    }

    /// One word.
    pub fn word(&self, index: usize) -> Word {
        assert!(index < self.count);
        Word {
            memory: Arc::clone(&self.memory),
            index: self.first + index,
        }
    }

    /// The model has no addresses.
    pub fn address(&self, _first: usize) -> *mut u8 {
        std::ptr::null_mut()
    }
}

/// One word.
#[derive(Debug, Clone)]
pub struct Word {
    memory: Arc<Memory>,
    index: usize,
}

impl Deref for Word {
    type Target = AtomicU64;

    fn deref(&self) -> &AtomicU64 {
        &self.memory.words[self.index]
    }
}

/// Stores bytes into words.
///
/// # Safety
/// `bytes` bytes are readable at `source`.
pub unsafe fn store_bytes(words: &[SharedWord], source: *const u8, bytes: usize) {
    // SAFETY: the caller's promise.
    let source = unsafe { std::slice::from_raw_parts(source, bytes) };
    for (word, bytes) in words.iter().zip(source.chunks(8)) {
        let mut value = [0; 8];
        value[..bytes.len()].copy_from_slice(bytes);
        // SAFETY: loom reports other users of the cell.
        word.data
            .with_mut(|cell| unsafe { *cell = u64::from_ne_bytes(value) });
    }
}

/// Loads bytes from words.
///
/// # Safety
/// `bytes` bytes are writable at `destination`.
pub unsafe fn load_bytes(words: &[SharedWord], destination: *mut u8, bytes: usize) {
    // SAFETY: the caller's promise.
    let destination = unsafe { std::slice::from_raw_parts_mut(destination, bytes) };
    for (word, bytes) in words.iter().zip(destination.chunks_mut(8)) {
        // SAFETY: loom reports other writers of the cell.
        let value = word.data.with(|cell| unsafe { *cell }).to_ne_bytes();
        bytes.copy_from_slice(&value[..bytes.len()]);
    }
}

/// Sleeps while the word has this value.
pub fn sleep(word: &Word, value: u32, _longest: Duration) {
    let lock = word.memory.lock.lock().unwrap();
    if word.load(Ordering::Relaxed) as u32 == value {
        drop(word.memory.woken.wait(lock).unwrap());
    }
}

/// Wakes the thread that sleeps on the word.
pub fn wake(word: &Word) {
    let _lock = word.memory.lock.lock().unwrap();
    word.memory.woken.notify_one();
}

/// Barriers for other threads are outside the model: both sides make their fences.
pub fn has_asymmetric_fences() -> bool {
    false
}

/// A fence.
pub fn heavy_fence(_asymmetric: bool) {
    loom::sync::atomic::fence(Ordering::SeqCst);
}

/// A fence.
pub fn light_fence(_asymmetric: bool) {
    loom::sync::atomic::fence(Ordering::SeqCst);
}

// SAFETY: loom checks every use of the cells.
unsafe impl Send for SharedWord {}
// SAFETY: as above.
unsafe impl Sync for SharedWord {}
