//! TCP: an interface as a NIC (`nic`), the frames of a connection over its sockets ([`sockets`]), how
//! sockets are connected ([`connect`]), byte streams ([`pipe`]), and streams with faults for tests
//! ([`faults`]).

pub mod connect;
pub mod faults;
mod nic;
pub mod pipe;
pub mod sockets;

pub(crate) use nic::{Settings, TcpNic};
