//! What a communicator is made with.

use std::time::Duration;

use program::Channels;

/// What a communicator is made with. All ranks say the same, but for the cores.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The plan's rings and trees; rings in rank order and binary trees if there is no plan.
    pub channels: Option<Channels>,
    /// How long a rank waits for others before it gives up.
    pub longest_wait: Duration,
    /// Cores that the ranks of this host share; those that this process may use if not said.
    pub cores: Option<usize>,
    /// Bytes that each rank can hand out as buffers and scratch memory. If not said, half of the memory that this process may
    /// use, or less where its addresses are limited. Pages are only taken when they are used.
    pub buffer_bytes: Option<usize>,
}

impl Default for Settings {
    /// No plan, and ten minutes of waiting, so that ranks may do something else meanwhile.
    fn default() -> Self {
        Self {
            channels: None,
            longest_wait: Duration::from_secs(600),
            cores: None,
            buffer_bytes: None,
        }
    }
}
