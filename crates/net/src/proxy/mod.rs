//! Proxies: a thread per NIC that carries the FIFOs of this process to other hosts and back.
//!
//! In reading order: [`pipe`] (a byte stream), [`carry`] (one FIFO), [`connect`] (its sockets), `queue` (requests to a
//! thread, and the state that it shares), `worker` (all FIFOs of a NIC), [`thread`] (drives them), `inline_progress` (drives
//! them from the engine's thread), [`faults`].

pub mod carry;
pub mod connect;
pub mod faults;
mod inline_progress;
pub mod pipe;
mod queue;
pub mod thread;
mod worker;

pub(crate) use inline_progress::InlineProgress;
pub use queue::{Common, bell};
