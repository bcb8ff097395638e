//! Credits: the counters of free slots, for all protocols.

use super::{Layout, SLOTS, TAG, is_free, tag};
use crate::sync::{Ordering, Word, Words};

/// The announced lengths: behind the tail, in the line that the sender writes.
fn lengths(words: &Words) -> Words {
    words.part(Layout::TAIL + 1..Layout::TAIL + 1 + SLOTS as usize)
}

/// The sender's counters: slots that it posted, and slots that it knows to be released.
#[derive(Debug)]
pub struct SendCredit {
    head: Word,
    head_seen: u64,
    step: u64,
    lengths: Words,
    announces: bool,
}

impl SendCredit {
    pub fn new(words: &Words, first_step: u64) -> Self {
        Self {
            head: words.word(Layout::HEAD),
            head_seen: first_step,
            step: first_step,
            lengths: lengths(words),
            announces: false,
        }
    }

    /// From now on stores each slot's length beside the counters.
    pub fn announce(&mut self) {
        self.announces = true;
    }

    /// Steps posted so far, which is the next step's number.
    #[inline(always)]
    pub fn step(&self) -> u64 {
        self.step
    }

    #[inline(always)]
    pub fn is_free(&mut self) -> bool {
        if self.is_known_free() {
            return true;
        }
        // Acquire: the receiver's reads of the slot come before our writes to it.
        self.head_seen = self.head.load(Ordering::Acquire);
        self.is_known_free()
    }

    #[inline(always)]
    pub fn is_known_free(&self) -> bool {
        is_free(self.step, self.head_seen)
    }

    #[inline(always)]
    pub fn advance(&mut self, bytes: usize) {
        if self.announces {
            self.note(bytes);
        }
        self.step += 1;
    }

    #[cold]
    fn note(&self, bytes: usize) {
        let word = &self.lengths.slice((self.step % SLOTS) as usize, 1)[0];
        // Release: the slot is posted before its length.
        word.store(tag(self.step) | bytes as u64, Ordering::Release);
    }
}

/// The receiver's counter.
#[derive(Debug)]
pub struct ReceiveCredit {
    head: Word,
    step: u64,
    lengths: Words,
}

impl ReceiveCredit {
    pub fn new(words: &Words, first_step: u64) -> Self {
        let head = words.word(Layout::HEAD);
        head.store(first_step, Ordering::Relaxed);
        Self {
            head,
            step: first_step,
            lengths: lengths(words),
        }
    }

    /// The length of the next slot, if the sender announced it.
    pub fn announced(&self) -> Option<usize> {
        let word = &self.lengths.slice((self.step % SLOTS) as usize, 1)[0];
        // Acquire: the slot is read after its length.
        let value = word.load(Ordering::Acquire);
        (value & TAG == tag(self.step)).then_some((value & !TAG) as usize)
    }

    /// Steps released so far, which is the next step's number.
    #[inline(always)]
    pub fn step(&self) -> u64 {
        self.step
    }

    #[inline(always)]
    pub fn release(&mut self) {
        self.step += 1;
        // Release: our reads of the slot come before the sender's writes to it.
        self.head.store(self.step, Ordering::Release);
    }
}
