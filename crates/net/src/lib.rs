//! Ranks that are processes, on one host or several. They meet over sockets; ranks of one host
//! share memory, and proxies move FIFOs between hosts over TCP or an NCCL net plug-in.
//!
//! [`Hosts::join`] meets the other ranks by a unique id, and returns the
//! [`Bootstrap`](executor::bootstrap::Bootstrap) of a communicator. The engine and the backend use
//! FIFOs of their own process only; proxy threads send their slots and post those that arrive. If
//! all ranks share memory there are no proxies.
//!
//! In reading order: [`host`], [`hosts`] (joining), `reach`, [`ports`] (which NIC and proxy),
//! [`nic`] (what a NIC is), [`framing`] (FIFOs as frames), [`tcp`] and [`plugin`] (the two kinds of
//! NIC), `proxy` (the threads), `forwarding` (PXN), `ended` (connections that ended), `home`,
//! [`run`] (what a plan gives to the ranks),
//! [`regroup`] and `late_joins` (survivors), `errors`.

mod accept_thread;
mod ended;
mod errors;
mod forwarding;
pub mod framing;
mod home;
pub mod host;
pub mod hosts;
mod late_joins;
pub mod nic;
pub mod plugin;
pub mod ports;
mod proxy;
mod reach;
pub mod regroup;
pub mod run;
pub mod tcp;

pub use host::Host;
pub use hosts::{Hosts, MOST_RANKS, Options, loopback_id};
pub use net_plugin::PluginChoice;
pub use plugin::agree::LoadedPlugin;
pub use ports::{Ports, ReceiverPort, SenderPort};
pub use reach::Reachability;
pub use regroup::Survivor;
