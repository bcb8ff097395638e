//! The links of a machine as rows of inequalities: what rings load them with, and what they carry.

use std::collections::BTreeMap;

use planner::search::hops::{Hops, PARTS};

/// Links that rings can load. Links that all hops load alike are one row, with the least capacity.
#[derive(Debug)]
pub(super) struct Rows {
    /// GPUs and ports; GPUs come first.
    pub stations: usize,
    /// GPUs.
    pub gpus: usize,
    /// Capacity of each row, in parts of 0.1 MB/s.
    pub capacities: Vec<u64>,
    /// For each pair of stations what the hop takes of rows; `None` if there is no such hop.
    legs: Vec<Option<Vec<(u32, u64)>>>,
}

impl Rows {
    /// The rows of a machine.
    pub(super) fn new(hops: &Hops) -> Self {
        let stations = hops.stations();
        let pairs = || (0..stations).flat_map(|from| (0..stations).map(move |to| (from, to)));
        let mut users: Vec<Vec<(usize, u64)>> = vec![Vec::new(); hops.capacities.len()];
        for (pair, (from, to)) in pairs().enumerate() {
            for (link, parts) in hops.hop(from, to).iter().flat_map(|hop| &hop.charges) {
                users[*link as usize].push((pair, *parts));
            }
        }
        let mut rows: BTreeMap<Vec<(usize, u64)>, u64> = BTreeMap::new();
        for (users, capacity) in users.into_iter().zip(&hops.capacities) {
            if !users.is_empty() {
                let capacity = capacity.saturating_mul(PARTS);
                let least = rows.entry(users).or_insert(capacity);
                *least = capacity.min(*least);
            }
        }
        let allowed = pairs().map(|(from, to)| hops.hop(from, to).map(|_| Vec::new()));
        let mut legs: Vec<Option<Vec<(u32, u64)>>> = allowed.collect();
        for (row, users) in (0u32..).zip(rows.keys()) {
            for (pair, parts) in users {
                if let Some(leg) = &mut legs[*pair] {
                    leg.push((row, *parts));
                }
            }
        }
        Self {
            stations,
            gpus: hops.ranks.len(),
            capacities: rows.into_values().collect(),
            legs,
        }
    }

    /// The load of a hop on rows.
    pub(super) fn leg(&self, from: usize, to: usize) -> Option<&[(u32, u64)]> {
        self.legs[from * self.stations + to].as_deref()
    }

    /// The load on each row of a walk over stations that then goes to a last one.
    pub(super) fn loads_to(&self, walk: &[usize], last: usize) -> Option<Vec<u64>> {
        let mut loads = vec![0; self.capacities.len()];
        let next = walk.iter().skip(1).chain([&last]);
        for (from, to) in walk.iter().zip(next) {
            for (row, parts) in self.leg(*from, *to)? {
                loads[*row as usize] += parts;
            }
        }
        Some(loads)
    }

    /// The most that channels with these loads together can carry each, 0.1 MB/s.
    pub(super) fn speed(&self, loads: &[u64]) -> u64 {
        let loaded = loads
            .iter()
            .zip(&self.capacities)
            .filter(|(load, _)| **load > 0);
        loaded
            .map(|(load, capacity)| capacity / load)
            .min()
            .unwrap_or(0)
    }
}
