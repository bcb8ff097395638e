//! Ranks on several hosts: they meet over sockets, those on one host share memory, and FIFOs between hosts are carried by
//! proxies over TCP, or by an NCCL net plug-in ([`fabric`]).
//!
//! [`Hosts::join`] meets the other ranks by a unique id and gives the [`Bootstrap`](executor::bootstrap::Bootstrap) of a
//! communicator. The engine and the backend see FIFOs of their own process only; a thread per NIC ([`proxy`]) takes
//! slots from them and brings what comes.
//!
//! In reading order: [`host`], [`hosts`], [`ports`], [`proxy`], [`fabric`], `carrier`,
//! `ended` (connections that ended), [`regroup`] with its `late_joins`.

mod carrier;
mod ended;
pub mod fabric;
pub mod host;
pub mod hosts;
mod late_joins;
pub mod ports;
pub mod proxy;
mod reach;
pub mod regroup;

pub use fabric::choose::Loaded;
pub use host::Host;
pub use hosts::{Hosts, Options};
pub use net_plugin::Wanted as WantedPlugin;
pub use ports::{Arriving, Leaving, Ports};
pub use reach::Reached;
pub use regroup::Survivor;
