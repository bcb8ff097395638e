//! The parts of a plan for the ranks that run it.
//!
//! In reading order: [`planned`] (channels, forests, fingerprint), [`ports`] (the NICs and proxies
//! of connections between hosts).

pub mod planned;
pub mod ports;

pub use planned::{PlannedRun, RunnerError};
pub use ports::PlanPorts;
