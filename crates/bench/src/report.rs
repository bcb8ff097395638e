//! The report of a run.

use std::sync::Arc;
use std::time::Duration;

use net::Reachability;
use net::run::PlanPorts;

use crate::load::CoreTime;
use crate::row::RunRow;
use crate::spec::Spec;

/// The run, and the measurement of each size.
#[derive(Debug)]
pub struct RunReport {
    /// The work of all ranks.
    pub spec: Spec,
    /// The plan whose rings and trees are used.
    pub planned: Option<RunPlan>,
    /// By size.
    pub rows: Vec<RunRow>,
    /// How ranks that a launcher started came together.
    pub launch: Option<LaunchReport>,
}

impl RunReport {
    /// The report of a run that has yet to begin.
    pub fn new(spec: Spec, planned: Option<RunPlan>, launch: Option<LaunchReport>) -> Self {
        Self {
            spec,
            planned,
            rows: Vec::new(),
            launch,
        }
    }

    /// Time of the ranks' cores, and what other programs took of it.
    pub fn cores(&self) -> CoreTime {
        CoreTime::sum(self.rows.iter().map(|it| it.cores))
    }
}

/// The plan of a run.
#[derive(Debug)]
pub struct RunPlan {
    /// Its name.
    pub name: String,
    /// The version of NCCL that decided, in words.
    pub nccl: String,
    /// How its ranks reach each other, in NCCL's words, most frequent first.
    pub transports: Vec<(&'static str, usize)>,
    /// The choice for each size of the run, in words.
    pub choices: Vec<Option<String>>,
    /// The NICs and proxies of connections between hosts.
    pub ports: Arc<PlanPorts>,
}

/// How the ranks of a report came together.
#[derive(Debug)]
pub struct LaunchReport {
    /// The starter of the ranks.
    pub by: &'static str,
    /// How this rank reaches the others.
    pub reached: Reachability,
    /// Ranks of each process, which are its threads.
    pub threads: u32,
    /// How long it took until all ranks had met.
    pub joined: Duration,
    /// Ranks that were lost, with what happened to them.
    pub lost: Vec<(Vec<u32>, String)>,
}
