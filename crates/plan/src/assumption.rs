//! Assumptions about a job's machines with another value of which the plan is another one.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// An assumption whose other value changes the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DecidingAssumption {
    /// What is assumed.
    pub assumed: String,
    /// The plan with it.
    pub so: PlanFigures,
    /// What it may be instead.
    pub otherwise: String,
    /// The plan in this case.
    pub then: PlanFigures,
    /// The command whose output settles it.
    pub settled_by: String,
}

/// The figures of a plan that assumptions change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanFigures {
    /// Channels of rings and trees, the GB/s of each, and their worst paths.
    pub channels: Vec<String>,
    /// The transports between GPUs, with their paths.
    pub transports: Vec<String>,
    /// Algorithm and protocol of an all-reduce of 256 MiB.
    pub all_reduce: String,
    /// Its predicted bus bandwidth, GB/s.
    pub bus_bandwidth_gbps: Option<f64>,
}

/// Checks that all bandwidths are finite and none is negative.
///
/// # Errors
/// The first that is not.
pub(crate) fn check(assumptions: &[DecidingAssumption]) -> Result<(), Error> {
    for (index, it) in assumptions.iter().enumerate() {
        for figures in [&it.so, &it.then] {
            let bandwidth = figures.bus_bandwidth_gbps.unwrap_or(0.0);
            if !bandwidth.is_finite() || bandwidth < 0.0 {
                return Err(Error::inconsistent(
                    format!("assumptions[{index}]"),
                    format!("a bandwidth is {bandwidth}; expected 0 GB/s or more"),
                ));
            }
        }
    }
    Ok(())
}
