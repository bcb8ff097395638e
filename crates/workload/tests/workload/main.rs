//! The integration tests of this crate, in one program.

mod chakra;
mod kineto;
mod lists;
mod megatron;
mod models;
mod simai;
