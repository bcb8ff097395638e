//! Proxies: a thread per NIC that carries the FIFOs of this process to other hosts and back.
//!
//! In reading order: [`pipe`] (what bytes go through), [`carry`] (one FIFO), [`connect`] (making its sockets),
//! [`thread`] (driving all of them), [`faults`].

pub mod carry;
pub mod connect;
pub mod faults;
pub mod pipe;
pub mod thread;
