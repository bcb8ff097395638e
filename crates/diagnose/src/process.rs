//! Processes, and their ranks.

use records::nccl_log::log::RankFacts;
use records::nccl_log::{Communicator, Log};
use serde::Serialize;

use crate::JsonSchema;

/// A process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Process {
    /// Its host.
    pub host: String,
    /// Its number.
    #[serde(rename = "process")]
    pub number: u32,
    /// Its number of the GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u32>,
}

/// The rank of a process in the largest communicator, of those that share processes with it.
pub(crate) fn rank_of(log: &Log, of: &Process) -> Option<u32> {
    // Numbers differ sooner than names.
    let is_own = |it: &RankFacts| it.process == of.number && it.host == of.host;
    let has = |it: &&Communicator| it.members.iter().any(is_own);
    let largest = log
        .communicators
        .iter()
        .filter(has)
        .max_by_key(|it| it.ranks)?;
    let larger = log.communicators.iter();
    let mut larger = larger.filter(|it| it.ranks > largest.ranks).peekable();
    // In a part of the job's ranks, the number is another one.
    if larger.peek().is_some() {
        let members = largest.members.iter().map(|it| (it.process, &it.host));
        let mut members: Vec<(u32, &String)> = members.collect();
        members.sort_unstable();
        let mut others = larger.flat_map(|it| &it.members);
        if others.any(|it| members.binary_search(&(it.process, &it.host)).is_ok()) {
            return None;
        }
    }
    let mut members = largest.members.iter();
    members.find(|it| is_own(it) && it.gpu == of.gpu)?.rank
}
