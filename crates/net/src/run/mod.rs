//! The parts of a plan for the ranks that run it.
//!
//! In reading order: [`channels_of_plan`] (channels, forests, fingerprint), [`ports`] (the NICs and
//! proxies of connections between hosts).

pub mod channels_of_plan;
pub mod ports;

pub use channels_of_plan::{RunChannels, RunnerError};
pub use ports::PlanPorts;
