//! Settings of a communicator.

use std::time::Duration;

use program::Channels;

/// Settings of a communicator. All but `cores` must be equal on all ranks.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The plan's rings and trees. `None`: rings in rank order, and binary trees.
    pub channels: Option<Channels>,
    /// Longest wait for another rank.
    pub longest_wait: Duration,
    /// Cores that the ranks of this host share. `None`: those that this process may use.
    pub cores: Option<usize>,
    /// Bytes for buffers and scratch memory of each rank. `None`: half of the memory that this
    /// process may use, or less if its address space is limited. Pages are taken when they are
    /// used.
    pub buffer_bytes: Option<usize>,
    /// Whether most collectives run on memory of the caller, not on that of
    /// [`Communicator::buffer`](crate::Communicator::buffer). Both are always right; this is for
    /// the choice of the fastest algorithm.
    pub callers_memory: bool,
}

impl Default for Settings {
    /// No plan, and ten minutes, because ranks may compute between collectives.
    fn default() -> Self {
        Self {
            channels: None,
            longest_wait: Duration::from_secs(600),
            cores: None,
            buffer_bytes: None,
            callers_memory: false,
        }
    }
}
