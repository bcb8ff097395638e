//! The job that ran, by the lines of NCCL.

use std::collections::{BTreeMap, BTreeSet};

use records::nccl_log::Log;
use records::nccl_log::collect::Counts;
use serde::Serialize;

use crate::JsonSchema;

/// What ran, by the lines of NCCL.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct JobFacts {
    /// NCCL's versions.
    pub versions: Vec<String>,
    /// The hosts.
    pub hosts: Vec<String>,
    /// The ranks of the largest communicator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u32>,
    /// Communicators.
    pub communicators: usize,
    /// Runs: jobs, or attempts at one.
    pub runs: usize,
    /// By variable the values that any process has.
    pub settings: BTreeMap<String, BTreeSet<String>>,
    /// Numbers of lines of all inputs that are text, by what became of them.
    pub lines: Counts,
    /// More was said than is kept.
    pub incomplete: bool,
}

impl JobFacts {
    /// The facts of a log that has a line of NCCL.
    pub(crate) fn of(log: &Log) -> Option<Self> {
        if log.has_nothing() {
            return None;
        }
        let hosts = log.hosts.keys().filter(|it| !it.is_empty());
        Some(Self {
            versions: log.versions.keys().cloned().collect(),
            hosts: hosts.cloned().collect(),
            ranks: log.communicators.iter().map(|it| it.ranks).max(),
            communicators: log.communicators.len(),
            runs: log.runs.len().max(1),
            settings: log.settings(),
            lines: log.counts,
            incomplete: log.is_full,
        })
    }
}
