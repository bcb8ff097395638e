//! What the trees of a plan cost beside NCCL's algorithms.

use plan::certificate::UNITS;
use plan::{Algorithm, Plan, PlannedForest};
use program::{Collective, Protocol};

/// The times of the trees of one collective.
#[derive(Debug)]
pub struct ForestCost {
    collective: Collective,
    /// Latency, µs: a link of a tree takes as long as a step of a ring with Simple.
    latency: f64,
    /// Bus bandwidth by the links' bandwidths, GB/s.
    pub bandwidth: f64,
    /// Bytes per second of the message, divided by 10⁹.
    algorithm_bandwidth: f64,
    /// Links from a root to the farthest rank.
    pub height: usize,
}

impl ForestCost {
    /// The costs of the plan's trees; `None` without trees or rings.
    pub fn of(plan: &Plan, collective: Collective) -> Option<Self> {
        let mut forests = plan.forests.iter().flatten();
        let forest = forests.find(|forest| forest.collective == collective)?;
        let costs = plan.costs.as_ref()?;
        let ring = costs.entries.iter().find(|entry| {
            (entry.collective, entry.algorithm, entry.protocol)
                == (collective, Algorithm::Ring, Protocol::Simple)
        })?;
        let ranks = f64::from(costs.job.ranks.max(2));
        let both = match collective {
            Collective::AllReduce => 2.0,
            _ => 1.0,
        };
        let step = f64::from(ring.latency) / (both * (ranks - 1.0));
        let height = height(forest);
        let bandwidth = forest.bandwidth.per(f64::from(UNITS));
        Some(Self {
            collective,
            latency: step * both * height as f64,
            bandwidth,
            algorithm_bandwidth: bandwidth / collective.bus_factor(costs.job.ranks),
            height,
        })
    }

    /// The expected time for a message, µs.
    pub fn time_us(&self, bytes: u64) -> f64 {
        self.latency + bytes as f64 / self.algorithm_bandwidth / 1e3
    }

    /// Says from which size on trees are faster than what NCCL takes, and why. `times` has NCCL's
    /// times, µs.
    pub fn sentence(&self, times: &[(u64, f64)], nccl: Option<f64>) -> String {
        let faster = |(bytes, time): &&(u64, f64)| self.time_us(*bytes) < *time;
        let reaches = match nccl {
            Some(nccl) => format!("{:.1} GB/s, NCCL's plan {nccl:.1}", self.bandwidth),
            None => format!("{:.1} GB/s", self.bandwidth),
        };
        let when = match times.iter().find(faster) {
            Some((bytes, _)) => format!("faster from {} on", crate::sizes::short(*bytes)),
            None => "not faster at these sizes".to_owned(),
        };
        format!(
            "Trees ({}, topo run --algorithm forest) are {when}: for long messages they reach {reaches}. They are up \
             to {} links high; a link is priced as a step of a ring with Simple.",
            self.collective.command_name(),
            self.height
        )
    }
}

fn height(forest: &PlannedForest) -> usize {
    let of = |parents: &Vec<Option<u32>>| {
        let depth = |rank: usize| {
            let up = |at: &usize| parents.get(*at)?.map(|parent| parent as usize);
            std::iter::successors(Some(rank), up)
                .take(parents.len())
                .count()
                - 1
        };
        (0..parents.len()).map(depth).max().unwrap_or(0)
    };
    let trees = forest.channels.iter().flat_map(|channel| &channel.trees);
    let links = trees.flat_map(|tree| tree.up.iter().chain(&tree.down));
    links.map(of).max().unwrap_or(0)
}
