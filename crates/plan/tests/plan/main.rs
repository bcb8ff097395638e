//! The integration tests of this crate, in one program.

mod c_general;
mod common;
mod nccl_graph;
mod plan_file;
