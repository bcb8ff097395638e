//! NCCL's net plug-ins: loads a library that was made for NCCL (EFA, InfiniBand, RoCE …) and drives
//! its NICs.
//!
//! The library exports a table of functions for each ABI version that it supports. The newest of
//! v12 to v8 is used; [`Plugin`] hides the differences. Missing functions, results and devices are
//! checked. Memory that a NIC accesses belongs to a connection, so that safe code cannot access it
//! at the same time, or is [`CallerMemory`] by a caller who ensures that.
//!
//! This crate starts no thread and does not block: callers poll.
//!
//! In reading order: `library` (finding it), `abi` (its tables), `functions`, `instance` (a started
//! plug-in), `plugin`, `device`, `connect`, `connection`, `memory`, [`log`].

#[doc(hidden)]
pub mod abi;
mod connect;
mod connection;
mod device;
mod error;
mod functions;
mod instance;
mod library;
pub mod log;
mod memory;
mod plugin;

pub use connect::{ConnectAttempt, Handle, ListenComm};
pub use connection::{ReceiveComm, SendComm, Shape, free_left};
pub use device::Device;
pub use error::Error;
pub use library::PluginChoice;
pub use memory::{CallerMemory, Owner};
pub use plugin::Plugin;
