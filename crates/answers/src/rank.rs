//! The part of one rank in a planned job.

use crate::JsonSchema;
use plan::{RankView, SlowHosts};
use serde::Serialize;

use crate::report::Report;

/// The part of one rank in a planned job.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RankReport {
    /// The rank.
    #[serde(flatten)]
    pub view: RankView,
    /// The hosts that slow the job.
    pub slow_hosts: Vec<SlowHosts>,
}

impl Report for RankReport {
    const FORMAT: &'static str = "topo-rank";
    const VERSION: u32 = 1;
}
