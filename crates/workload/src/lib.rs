//! The collectives of a training or inference step: which group of ranks calls what, with how many
//! bytes, how often, beside which computation.
//!
//! Nothing here opens a file, reads the environment, looks at a clock, prints or starts a thread.
//!
//! In reading order: [`call`] (a call and its place in the step), [`tokens`]
//! (exchanges with experts), [`groups`] (the ranks of a
//! group's communicators), [`parallelism`] (Megatron's groups), [`megatron`] (the calls of a
//! transformer); the readers: [`list`] (CSV and JSON of our own), [`simai`], [`kineto`],
//! [`chakra`]; [`files`] (any of them); [`error`].

pub mod call;
pub mod chakra;
pub mod error;
pub mod files;
pub mod groups;
pub mod kineto;
pub mod list;
pub mod megatron;
pub mod parallelism;
mod pytorch_names;
pub mod simai;
pub mod tokens;

#[cfg(feature = "arguments")]
use clap::Args;
#[cfg(not(feature = "arguments"))]
use no_schema::Args;
#[cfg(not(feature = "schema"))]
use no_schema::JsonSchema;
#[cfg(feature = "schema")]
use schemars::JsonSchema;

pub use call::{Call, Group, Measured, Pipeline, Wait, Workload};
pub use error::WorkloadError;
pub use files::{Files, is_one};
pub use groups::{Axis, Members, MembersError};
pub use parallelism::Parallelism;
pub use tokens::{Direction, Tokens};

/// Largest workload file that is read, bytes.
pub const MAX_BYTES: u64 = 64 << 20;

/// Reads a workload of any known format. `file` is its name in errors, `ranks` the number of ranks
/// of the job where the text does not say it, `tflops` what a GPU computes, TFLOP/s.
///
/// # Errors
/// The text is none, with the line and what was expected.
pub fn read(
    file: &str,
    text: &str,
    ranks: u32,
    tflops: Option<f64>,
) -> Result<Workload, WorkloadError> {
    if list::json::is_one(text) {
        list::json::read(file, text)
    } else if simai::is_one(text) {
        simai::read(file, text, ranks)
    } else if megatron::script::is_one(text) {
        megatron::script::read(file, text, ranks, tflops)
    } else {
        list::csv::read(file, text)
    }
}
