//! Credits: which slots are free, for the protocols' senders and receivers alike.

use super::{Layout, SLOTS};
use crate::sync::{Ordering, Word, Words};

/// The sender's view: how many slots it posted, and how many came back as far as it knows.
#[derive(Debug)]
pub struct SendCredit {
    head: Word,
    head_seen: u64,
    step: u64,
}

impl SendCredit {
    pub fn new(words: &Words, first_step: u64) -> Self {
        Self {
            head: words.word(Layout::HEAD),
            head_seen: first_step,
            step: first_step,
        }
    }

    /// Steps posted so far, which is the number of the next one.
    #[inline(always)]
    pub fn step(&self) -> u64 {
        self.step
    }

    #[inline(always)]
    pub fn is_free(&mut self) -> bool {
        if self.is_known_free() {
            return true;
        }
        // Acquire: the receiver's reads of the slot come before our writes into it.
        self.head_seen = self.head.load(Ordering::Acquire);
        self.is_known_free()
    }

    #[inline(always)]
    pub fn is_known_free(&self) -> bool {
        self.step < self.head_seen + SLOTS
    }

    #[inline(always)]
    pub fn advance(&mut self) {
        self.step += 1;
    }
}

/// The receiver's side of it.
#[derive(Debug)]
pub struct ReceiveCredit {
    head: Word,
    step: u64,
}

impl ReceiveCredit {
    pub fn new(words: &Words, first_step: u64) -> Self {
        let head = words.word(Layout::HEAD);
        head.store(first_step, Ordering::Relaxed);
        Self {
            head,
            step: first_step,
        }
    }

    /// Steps released so far, which is the number of the next one.
    #[inline(always)]
    pub fn step(&self) -> u64 {
        self.step
    }

    #[inline(always)]
    pub fn release(&mut self) {
        self.step += 1;
        // Release: our reads of the slot come before the sender's writes into it.
        self.head.store(self.step, Ordering::Release);
    }
}
