//! NCCL's net plug-ins: loads a library that was made for NCCL (EFA, InfiniBand, RoCE …) and drives its NICs.
//!
//! The library exports tables of functions, one for each version of the interface that it knows. The newest of v12 to v8
//! is taken, and behind [`Plugin`] all are alike. What the plug-in gives is checked where it comes in: functions that are
//! missing, results, devices. Memory that a NIC reads or writes is a connection's own, so safe code cannot touch it while
//! it does; or it is [`Given`] by somebody who sees to that, such as memory of a GPU.
//!
//! This crate starts no thread and waits for nothing: whoever uses a connection calls again.
//!
//! In reading order: [`library`] (which library), [`abi`] (what it exports), [`plugin`], [`device`], [`connection`],
//! [`log`].

pub mod abi;
pub mod connection;
pub mod device;
mod error;
mod functions;
pub mod library;
pub mod log;
mod memory;
pub mod plugin;

pub use connection::{Connecting, Handle, Listening, Receiving, Sending, Shape, free_left};
pub use device::Device;
pub use error::Error;
pub use library::Wanted;
pub use memory::{Given, Owner};
pub use plugin::Plugin;
