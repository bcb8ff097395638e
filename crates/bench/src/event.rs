//! The reports of one rank while the ranks run.

use crate::RunRow;

/// An event of rank 0.
#[derive(Debug)]
pub enum Event<'a> {
    /// All ranks are connected; with a report on the GPUs, empty for processors.
    Connected(&'a str),
    /// The ranks know how they run this size, bytes, and begin.
    Size(u64),
    /// All ranks have measured a size.
    Row(&'a RunRow),
}

/// Learns of the events, on a thread of the run.
pub type Observer<'a> = dyn FnMut(Event<'_>) + Send + 'a;
