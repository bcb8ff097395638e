//! Proxies: a thread per NIC that carries the FIFOs of this process to other hosts and back.
//!
//! In reading order: [`pipe`] (what bytes go through), [`carry`] (one FIFO), [`connect`] (making its sockets), `desk` (what
//! threads share), `worker` (all FIFOs of a NIC), [`thread`] (driving them), `wheel` (driving them in its place),
//! [`faults`].

pub mod carry;
pub mod connect;
mod desk;
pub mod faults;
pub mod pipe;
pub mod thread;
mod wheel;
mod worker;

pub use desk::{Common, bell};
pub(crate) use wheel::Wheels;
