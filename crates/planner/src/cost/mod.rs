//! The cost model: bandwidth and latency of every algorithm and protocol, which decide the choice
//! for a message size.
//!
//! [`table`] turns [`Inputs`] (what joining the hosts decided), [`Tuning`](crate::settings::Tuning)
//! (the user's settings) and a [`CostProfile`] (the constants) into a [`CostTable`], which becomes
//! part of the plan.
//!
//! In reading order: [`inputs`], [`profile`] with its numbers in [`constants`] and its reader in
//! [`read`], [`restrict`] (`NCCL_ALGO`, `NCCL_PROTO`), [`tables`] with `enable`, `bandwidth`,
//! `latency`, `threads` and `windows` for its parts; [`alpha_beta`], a model for what NCCL does not
//! price.

pub mod alpha_beta;
mod bandwidth;
pub mod constants;
mod enable;
pub mod inputs;
mod latency;
mod pipeline;
mod plateau;
pub mod profile;
pub mod read;
mod registered;
pub mod restrict;
pub mod tables;
mod threads;
mod windows;

pub use alpha_beta::AlphaBeta;
pub use enable::{RUBIN_DRIVER, assumes_driver};
pub use inputs::{CollnetInputs, GraphFigures, Inputs, Merged, NvlsInputs};
pub use latency::net_overhead_us;
pub use plan::cost::{
    Calls, Chunking, CostEntry, CostTable, DataType, NoChoice, Off, OperationChoice, Range,
    Registration, TunedOperation, doubling,
};
pub use profile::CostProfile;
pub use read::CostProfileError;
pub use restrict::RestrictError;
pub use tables::table;
