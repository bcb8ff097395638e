//! Proxies: a thread per NIC that carries the FIFOs of this process to other hosts and back.
//!
//! In reading order: [`carry`] (one FIFO), `queue` (requests to a
//! thread, and the state that it shares), `worker` (all FIFOs of a NIC), [`thread`] (drives them), `inline_progress` (drives
//! them from the engine's thread).

pub mod carry;
mod inline_progress;
mod queue;
pub mod thread;
mod worker;

pub(crate) use inline_progress::InlineProgress;
pub use queue::{Common, bell};
