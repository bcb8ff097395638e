//! The integration tests of this crate, in one program.

#![cfg(not(loom))]

mod fifo;
mod memory;
mod model;
mod waiting;
