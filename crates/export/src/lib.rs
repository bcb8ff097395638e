//! A plan as files that others obey.
//!
//! Pure: nothing is opened, written or printed.
//!
//! In reading order: [`graphs`] (NCCL's graph files), [`choices`] (the choice for each size),
//! [`csv`] (the same for NVIDIA's example of a tuner plug-in), [`ncclx`] (for Meta's NCCL),
//! [`coll_config`] (for calls with a configuration), [`mscclpp`] (execution plans of MSCCL++).

pub mod choices;
pub mod coll_config;
pub mod csv;
pub mod graphs;
pub mod mscclpp;
pub mod ncclx;

#[cfg(not(feature = "schema"))]
use no_schema::JsonSchema;
#[cfg(feature = "schema")]
use schemars::JsonSchema;
