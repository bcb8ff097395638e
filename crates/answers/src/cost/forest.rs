//! Costs of a plan's trees beside NCCL's algorithms.

use plan::certificate::UNITS;
use plan::{Algorithm, Plan, PlannedForest};
use program::{Collective, Protocol};

/// The times of the trees of one collective.
#[derive(Debug)]
pub struct ForestCost {
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
