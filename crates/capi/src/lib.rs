//! The CPU runtime as a C library. `include/topo.h` describes each function to its callers.
//!
//! In reading order: [`ffi`] (the functions), [`error`], [`options`], [`request`], [`comm`],
//! [`queue`], [`compare`], [`split`].

pub mod comm;
pub mod compare;
pub mod error;
pub mod ffi;
pub mod options;
pub mod queue;
pub mod request;
pub mod split;
