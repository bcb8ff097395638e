//! Proxies: threads that drive the connections of this rank's NICs.
//!
//! In reading order: `queue` (requests to a thread, and the state that it shares), `worker` (all
//! connections of a thread), `thread`, `inline_progress` (drives them from the engine's thread),
//! `readiness` (the sockets on which the engine sleeps).

mod inline_progress;
mod queue;
mod readiness;
mod thread;
mod worker;

pub(crate) use queue::{Common, ProxyQueues, bell};
pub(crate) use thread::{MOST_THREADS, Proxies};
