//! Runs programs on CPUs.
//!
//! In reading order: [`reduce`].

pub mod reduce;
