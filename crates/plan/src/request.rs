//! The producer of a plan, and the job and settings that it was made for.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};

/// The program that made a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Producer {
    /// Name of the program.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// The job that was planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestSummary {
    /// Hosts in the job.
    pub hosts: u32,
    /// All hosts form one NVLink domain.
    pub nvlink_domain: bool,
    /// There is a network that reduces (SHARP).
    pub collnet: bool,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// The variable, such as `NCCL_CROSS_NIC`.
    pub name: String,
    /// Its value, as given.
    pub value: String,
}
