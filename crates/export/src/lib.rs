//! A plan as files that others obey.
//!
//! Pure: nothing is opened, written or printed.
//!
//! In reading order: [`graphs`] (NCCL's graph files), [`choices`] (the choice for each size),
//! [`csv`] (the same for NVIDIA's example of a tuner plug-in), [`mscclpp`] (execution plans of
//! MSCCL++).

#![warn(unreachable_pub)]

pub mod choices;
pub mod csv;
pub mod graphs;
pub mod mscclpp;
