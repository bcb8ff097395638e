//! TCP: an interface as a NIC (`nic`), the frames of a connection over its sockets ([`sockets`]),
//! how sockets are connected ([`connect`]) and wait for their receiver (`arrivals`), and byte
//! streams ([`pipe`]).

mod arrivals;
pub mod connect;
mod nic;
pub mod pipe;
pub mod sockets;

pub(crate) use nic::{Settings, TcpNic};
