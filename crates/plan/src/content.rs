//! The content of a plan.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::assumption::DecidingAssumption;
use crate::common::Common;
use crate::cost::CostTable;
use crate::digest::Digest;
use crate::forest::PlannedForest;
use crate::machine::PlannedMachine;
use crate::measured::PlannedLinks;
use crate::order::RankOrder;
use crate::request::{Producer, RequestSummary, Setting};

// An optional section is an `Option` that is neither written nor hashed while it is `None`, so that
// plans without it keep their bytes: `#[serde(default, skip_serializing_if = "Option::is_none")]`.
// A change that old readers would misread raises `VERSION`.

/// The planner's decisions for a communicator.
///
/// What holds for many ranks is stored once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Plan")]
pub struct PlanContent {
    /// The program that made the plan.
    pub producer: Producer,
    /// The profile of the decisions, such as `nccl-2.30`.
    pub profile: String,
    /// The digest of the plan's input: machines, settings and request
    /// ([`Fingerprint`](crate::Fingerprint)).
    pub fingerprint: Digest,
    /// The job that was asked for.
    pub request: RequestSummary,
    /// NCCL's settings that were given, in the order given.
    pub settings: Vec<Setting>,
    /// The machines of the job, in rank order unless there is another.
    pub hosts: Vec<HostRun>,
    /// Which rank runs on which GPU, if ranks do not count host after host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank_order: Option<RankOrder>,
    /// The common part of all ranks after the hosts are joined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub common: Option<Common>,
    /// The costs of collectives; they decide the algorithm and protocol for a size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub costs: Option<CostTable>,
    /// Trees that come near the most that any schedule reaches, if they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forests: Option<Vec<PlannedForest>>,
    /// The measured links on which rings or forests were found; absent if they are NCCL's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured: Option<PlannedLinks>,
    /// The assumptions about the machines that decide, each with the plan of another value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<DecidingAssumption>,
    /// The different machines, with the channels that were found for each.
    pub machines: Vec<PlannedMachine>,
}

/// Equal machines in a row. Thousands of equal hosts are one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostRun {
    /// The machine, as an index into the plan's `machines`.
    pub machine: u32,
    /// Number of machines.
    pub count: u32,
    /// Rank of the first GPU of the first machine, before a rank order is applied. The ranks of a
    /// machine are consecutive, and so are its copies.
    pub first_rank: u32,
}
