//! The CPU runtime as a C library. `include/topo.h` describes each function to its callers.
//!
//! In reading order: [`ffi`], [`transfers`] and [`on_streams`] (the functions), [`last`] (the
//! border), [`numbers`], [`options`], `handles`, `pointers`.

pub mod ffi;
mod handles;
pub mod last;
pub mod numbers;
pub mod on_streams;
pub mod options;
mod pointers;
pub mod transfers;
