//! What is known to come of continuing from a state.
//!
//! Different channels often use the same bandwidth: a ring from another start, the same channels in another order. What
//! follows then is the same, step by step. It is walked once and counted from then on, as long as it could not replace
//! the best solution, so that the budget ends exactly where NCCL's ends.

use rustc_hash::FxHashMap;

use super::fingerprint::{Fingerprint, weight};
use super::walk::Seen;

/// Steps that a look-up must save on average to be worth making.
const WORTH: u64 = 1;

/// Look-ups before that is judged.
const TRIAL: u64 = 128;

/// All that the rest of a walk depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct State {
    fingerprint: Fingerprint,
    values: usize,
}

impl State {
    /// What links and ports have left.
    pub const fn new(fingerprint: Fingerprint) -> Self {
        Self {
            fingerprint,
            values: 0,
        }
    }

    /// Adds a value; each must always be the same one in order.
    pub fn add(&mut self, value: i64) {
        // Links and ports count from both ends of all numbers.
        const MIDDLE: usize = usize::MAX / 2;
        self.fingerprint.add(weight(MIDDLE + self.values), value);
        self.values += 1;
    }
}

/// What came of one state.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownEnd {
    /// Steps it took.
    pub steps: i32,
    /// The best that was seen; links are counted from the state on.
    pub seen: Seen,
}

/// Whether remembering pays.
#[derive(Debug, Clone, Copy, Default)]
struct Balance {
    lookups: u64,
    saved: u64,
}

/// The states of one attempt.
#[derive(Debug, Default)]
pub(super) struct KnownEnds {
    ends: FxHashMap<Fingerprint, KnownEnd>,
    on: bool,
    /// At starts of channels, and inside them.
    balance: [Balance; 2],
}

impl KnownEnds {
    /// Forgets everything: another attempt begins. Attempts with a small budget do not come back to a state often
    /// enough to be `on`.
    pub fn clear(&mut self, on: bool) {
        self.ends.clear();
        self.on = on;
        self.balance = [Balance::default(); 2];
    }

    /// Whether anything is remembered at all.
    pub const fn is_on(&self) -> bool {
        self.on
    }

    /// Whether remembering pays, at starts of channels or inside them.
    pub const fn pays(&self, inside: bool) -> bool {
        let balance = self.balance[inside as usize];
        self.on && (!inside || balance.lookups < TRIAL || balance.saved >= balance.lookups * WORTH)
    }

    pub fn get(&mut self, state: State, inside: bool) -> Option<KnownEnd> {
        self.balance[usize::from(inside)].lookups += 1;
        self.ends.get(&state.fingerprint).copied()
    }

    /// Says that steps did not have to be walked.
    pub const fn saved(&mut self, steps: i32, inside: bool) {
        self.balance[inside as usize].saved += steps as u64;
    }

    pub fn insert(&mut self, state: State, end: KnownEnd) {
        self.ends.insert(state.fingerprint, end);
    }
}
