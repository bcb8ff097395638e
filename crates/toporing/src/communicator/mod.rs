//! Communicators that other programs hold, whatever their language: memory at addresses, one call
//! at a time, a queue of what was started, abort from any thread, forks, splitting.
//!
//! In reading order: [`error`], [`options`], [`request`], [`exchange`], [`call_site`], [`comm`],
//! `forks`, [`gpu`], [`shared`], [`queue`], `open`, `at_once`, `worker`,
//! [`compare`], [`split`].

mod at_once;
pub mod call_site;
pub mod comm;
pub mod compare;
pub mod error;
pub mod exchange;
pub mod forks;
pub mod gpu;
mod on_gpu;
mod open;
pub mod options;
pub mod queue;
pub mod request;
pub mod shared;
pub mod split;
mod worker;

pub use bootstrap::UniqueId;
pub use comm::Comm;
pub use error::{Code, Fault};
pub use exchange::Exchange;
pub use executor::{End, Transport, interrupt};
pub use net::run::{RunChannels, RunnerError};
pub use options::{Options, free_id, hold_root};
pub use program::{Collective, ElementType, Reduction};
pub use queue::Transfer;
pub use request::{Arguments, Launch, bytes};
