//! Links of a machine as they were measured, on which rings or trees of a plan were found.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The links of the job's machine, as measurements show them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlannedLinks {
    /// The file with the measurements.
    pub source: String,
    /// The links that measured transfers crossed, each in one direction.
    pub links: Vec<PlannedLink>,
}

/// A link in one direction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlannedLink {
    /// Where it begins, such as `CPU0`.
    pub from: String,
    /// Where it ends, such as `GPU3`.
    pub to: String,
    /// Its type in NCCL's words, such as `PCI`.
    pub kind: String,
    /// What NCCL takes it for, GB/s.
    pub nccl_gbps: f32,
    /// The bandwidth that rings and trees were judged with, GB/s.
    pub used_gbps: f32,
}

impl PlannedLinks {
    /// Checks that all bandwidths are finite and none is negative.
    ///
    /// # Errors
    /// The first that is not.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for (index, link) in self.links.iter().enumerate() {
            for (name, gbps) in [("nccl_gbps", link.nccl_gbps), ("used_gbps", link.used_gbps)] {
                if !gbps.is_finite() || gbps < 0.0 {
                    return Err(Error::inconsistent(
                        format!("measured.links[{index}]"),
                        format!("{name} is {gbps}; expected a bandwidth, GB/s"),
                    ));
                }
            }
        }
        Ok(())
    }
}
