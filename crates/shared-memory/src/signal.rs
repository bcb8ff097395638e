//! Counters of signals from one rank to another.

use crate::sync::{Ordering, Word};

/// The end that gives signals.
#[derive(Debug)]
pub struct Signal {
    word: Word,
    given: u64,
}

impl Signal {
    pub(crate) fn new(word: Word) -> Self {
        Self { word, given: 0 }
    }

    /// Gives a signal. The taker sees everything that was written before.
    #[inline]
    pub fn notify(&mut self) {
        self.given += 1;
        // Only this end writes the word, so it is not read. Release: orders earlier writes before
        // the signal.
        self.word.store(self.given, Ordering::Release);
    }

    /// Signals given so far.
    pub fn given(&self) -> u64 {
        self.given
    }
}

/// The end that takes signals.
#[derive(Debug)]
pub struct SignalCount {
    word: Word,
    taken: u64,
    seen: u64,
}

impl SignalCount {
    pub(crate) fn new(word: Word) -> Self {
        Self {
            word,
            taken: 0,
            seen: 0,
        }
    }

    /// Whether a signal can be taken. Touches no shared memory while it knows of one.
    #[inline]
    pub fn has_come(&mut self) -> bool {
        if self.taken < self.seen {
            return true;
        }
        // Acquire: orders later reads after the signal.
        self.seen = self.word.load(Ordering::Acquire);
        self.taken < self.seen
    }

    /// Takes a signal if there is one. Returns whether it did.
    #[inline]
    pub fn try_take(&mut self) -> bool {
        let come = self.has_come();
        self.taken += u64::from(come);
        come
    }

    /// Signals taken so far.
    pub fn taken(&self) -> u64 {
        self.taken
    }
}
