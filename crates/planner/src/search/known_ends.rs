//! What is known to come of continuing from a state.
//!
//! Different channels often use the same bandwidth: a ring from another start, the same channels in another order. What
//! follows then is the same, step by step. It is walked once and counted from then on, as long as it could not replace
//! the best solution, so that the budget ends exactly where NCCL's ends.

use rustc_hash::FxHashMap;

use super::walk::Seen;

/// All that the rest of a walk depends on: the number of channels, the ports that bind the next one, and what ports and
/// links have left.
pub(super) type State = Vec<i32>;

/// What came of one state.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownEnd {
    /// Steps it took.
    pub steps: i32,
    /// The best that was seen; links are counted from the state on.
    pub seen: Seen,
}

/// The states of one attempt.
#[derive(Debug, Default)]
pub(super) struct KnownEnds {
    ends: FxHashMap<Box<[i32]>, KnownEnd>,
    /// The state that is being looked up.
    state: State,
    /// Attempts with a small budget do not come back to a state often enough.
    pub worthwhile: bool,
}

impl KnownEnds {
    /// Forgets everything: another attempt begins.
    pub fn clear(&mut self, worthwhile: bool) {
        self.ends.clear();
        self.worthwhile = worthwhile;
    }

    /// Writes the state with `write` and looks it up.
    pub fn find(&mut self, write: impl FnOnce(&mut State)) -> Option<KnownEnd> {
        self.state.clear();
        write(&mut self.state);
        self.ends.get(self.state.as_slice()).copied()
    }

    /// The state that was looked up last.
    pub fn last_state(&self) -> Box<[i32]> {
        self.state.as_slice().into()
    }

    pub fn insert(&mut self, state: Box<[i32]>, end: KnownEnd) {
        self.ends.insert(state, end);
    }
}
