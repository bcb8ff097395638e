//! The known outcomes of continuing from a state.
//!
//! Different channels often use the same bandwidth: a ring from another start, or the same channels
//! in another order. The rest of the walk is then the same. It is walked once and afterwards only
//! counted, unless it could replace the best solution, so that the budget ends exactly where NCCL's
//! ends.

use rustc_hash::FxHashMap;

use super::fingerprint::StateFingerprint;
use super::seen::BestSolution;

/// All that the rest of a walk depends on where a channel begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct WalkState {
    /// The remaining bandwidth of links and ports.
    pub left: StateFingerprint,
    pub channel: u32,
    /// The ports of the channel before, where they bind this one.
    pub pair: [u32; 2],
}

/// The outcome of one state.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownEnd {
    /// Steps it took.
    pub steps: i32,
    /// The best that was seen; links are counted from the state on.
    pub seen: BestSolution,
}

/// The states of one attempt.
#[derive(Debug, Default)]
pub(super) struct KnownEnds {
    ends: FxHashMap<WalkState, KnownEnd>,
    on: bool,
}

impl KnownEnds {
    /// Forgets everything: another attempt begins. Attempts with a small budget do not come back to
    /// a state often enough to be `on`.
    pub(super) fn clear(&mut self, on: bool) {
        self.ends.clear();
        self.on = on;
    }

    /// Whether anything is remembered at all.
    pub(super) const fn is_on(&self) -> bool {
        self.on
    }

    pub(super) fn get(&self, state: &WalkState) -> Option<KnownEnd> {
        self.ends.get(state).copied()
    }

    pub(super) fn insert(&mut self, state: WalkState, end: KnownEnd) {
        self.ends.insert(state, end);
    }
}
