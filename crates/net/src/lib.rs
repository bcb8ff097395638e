//! Ranks on several hosts: they meet over sockets, those on one host share memory, and FIFOs between hosts are carried by
//! proxies over TCP, or by an NCCL net plug-in ([`plugin`]).
//!
//! [`Hosts::join`] meets the other ranks by a unique id and gives the [`Bootstrap`](executor::bootstrap::Bootstrap) of a
//! communicator. The engine and the backend see FIFOs of their own process only; a thread per NIC ([`proxy`]) takes
//! slots from them and brings what comes.
//!
//! In reading order: [`host`], [`hosts`], [`ports`], [`proxy`], [`plugin`], `forwarding`,
//! `ended` (connections that ended), [`regroup`] with its `late_joins`.

mod ended;
mod forwarding;
pub mod framing;
pub mod host;
pub mod hosts;
mod late_joins;
pub mod nic;
pub mod plugin;
pub mod ports;
mod proxy;
mod reach;
pub mod regroup;
pub mod tcp;

pub use host::Host;
pub use hosts::{Hosts, Options};
pub use net_plugin::Wanted as WantedPlugin;
pub use plugin::agree::Loaded;
pub use ports::{Arriving, Leaving, Ports};
pub use reach::Reached;
pub use regroup::Survivor;
