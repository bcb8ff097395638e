//! Rings as channels: all of one bandwidth, and few.
//!
//! For each number of channels the largest bandwidth is found for which some choice of rings fits
//! (branch and bound): links with lengths offer only so much, which bounds how many more rings fit.

use super::relaxation::{Column, Relaxation};
use super::rows::Rows;

/// Most channels; NCCL searches for as many.
const MOST_CHANNELS: u64 = 32;

/// A set with more channels must carry this many hundredths of one with fewer.
const WORTH_MORE_CHANNELS: u64 = 101;

/// Rings that are tried for one set, and for all sets of a machine.
const BUDGET: u64 = 20_000;
const WHOLE_BUDGET: u64 = 400_000;

/// Room for rounding.
const SLACK: f64 = 1e-6;

/// Channels that carry the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Packing {
    /// For each channel its column.
    pub channels: Vec<usize>,
    /// Bandwidth of each, 0.1 MB/s.
    pub speed: u64,
}

impl Packing {
    /// Bandwidth of all channels, 0.1 MB/s.
    pub(super) const fn total(&self) -> u64 {
        self.speed * self.channels.len() as u64
    }
}

/// The channels that carry most together; few where more carry hardly more. `fastest` is the most
/// that one channel carries, 0.1 MB/s.
pub(super) fn pack(rows: &Rows, relaxed: &Relaxation, fastest: u64) -> Option<Packing> {
    let columns = &relaxed.columns;
    let bound = relaxed.bound.per(1.0);
    let lengths: Vec<f64> = columns
        .iter()
        .map(|column| length(&column.loads, &relaxed.lengths))
        .collect();
    let mut order: Vec<usize> = (0..columns.len()).collect();
    // Rings of the relaxation first, large ones before small ones; then short ones.
    order.sort_by(|a, b| {
        let key = |at: &usize| (-relaxed.amounts[*at], lengths[*at], *at);
        let (a, b) = (key(a), key(b));
        a.0.total_cmp(&b.0)
            .then(a.1.total_cmp(&b.1))
            .then(a.2.cmp(&b.2))
    });
    let mut best: Option<Packing> = None;
    let mut budget_left = WHOLE_BUDGET;
    for channels in 1..=MOST_CHANNELS {
        let limit = ((bound / channels as f64) as u64).min(fastest);
        let enough = best
            .as_ref()
            .map_or(1, |best| best.total() * WORTH_MORE_CHANNELS / 100);
        let mut speeds = speeds(rows, columns, channels, limit);
        speeds.retain(|speed| speed * channels >= enough);
        let mut tries = Tries {
            rows,
            columns,
            lengths: &lengths,
            prices: &relaxed.lengths,
            order: &order,
            budget: 0,
        };
        // A smaller bandwidth always fits where a larger one does.
        let (mut low, mut high) = (0, speeds.len());
        let mut found = None;
        while low < high {
            let middle = (low + high) / 2;
            tries.budget = BUDGET.min(budget_left);
            let begun = tries.budget;
            let chosen = tries.fit(speeds[middle], channels);
            budget_left -= begun - tries.budget;
            match chosen {
                Some(chosen) => (found, high) = (Some(chosen), middle),
                None => low = middle + 1,
            }
        }
        if let Some(chosen) = found {
            let packing = packing(rows, columns, chosen, fastest);
            if packing.total() >= enough {
                best = Some(packing);
            }
        }
    }
    best
}

/// The bandwidth of a set of columns.
pub(super) fn packing(
    rows: &Rows,
    columns: &[Column],
    chosen: Vec<usize>,
    fastest: u64,
) -> Packing {
    let mut loads = vec![0u64; rows.capacities.len()];
    for column in &chosen {
        let of_column = &columns[*column].loads;
        loads
            .iter_mut()
            .zip(of_column)
            .for_each(|(all, it)| *all += it);
    }
    Packing {
        speed: rows.speed(&loads).min(fastest),
        channels: chosen,
    }
}

fn length(loads: &[u64], prices: &[f64]) -> f64 {
    loads
        .iter()
        .zip(prices)
        .map(|(load, price)| *load as f64 * price)
        .sum()
}

/// The bandwidths at which one ring less or more fits through some link, descending.
fn speeds(rows: &Rows, columns: &[Column], channels: u64, limit: u64) -> Vec<u64> {
    let mut speeds = vec![limit];
    for (row, capacity) in rows.capacities.iter().enumerate() {
        let loads = columns.iter().map(|column| column.loads[row]);
        let unit = loads.clone().fold(0, gcd);
        let most = loads.max().unwrap_or(0) * channels;
        let mut load = unit;
        while unit > 0 && load <= most {
            speeds.push(capacity / load);
            load += unit;
        }
    }
    speeds.retain(|speed| (1..=limit).contains(speed));
    speeds.sort_unstable_by(|a, b| b.cmp(a));
    speeds.dedup();
    speeds
}

const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

struct Tries<'a> {
    rows: &'a Rows,
    columns: &'a [Column],
    lengths: &'a [f64],
    prices: &'a [f64],
    order: &'a [usize],
    budget: u64,
}

impl Tries<'_> {
    /// Rings that fit at a bandwidth, if they are found within the budget.
    fn fit(&mut self, speed: u64, channels: u64) -> Option<Vec<usize>> {
        let left = self.rows.capacities.iter().map(|capacity| capacity / speed);
        let mut left: Vec<u64> = left.collect();
        let mut chosen = Vec::new();
        self.extend(&mut left, channels as usize, 0, &mut chosen)
            .then_some(chosen)
    }

    /// Chooses the other rings, from a place in the order on.
    fn extend(
        &mut self,
        left: &mut [u64],
        wanted: usize,
        from: usize,
        chosen: &mut Vec<usize>,
    ) -> bool {
        if chosen.len() == wanted {
            return true;
        }
        let missing = (wanted - chosen.len()) as f64;
        let offered = length(left, self.prices) + SLACK;
        if offered < missing {
            return false;
        }
        for place in from..self.order.len() {
            let column = self.order[place];
            // No ring is shorter than 1.
            if self.lengths[column] > offered - (missing - 1.0) {
                continue;
            }
            let Some(left_budget) = self.budget.checked_sub(1) else {
                return false;
            };
            self.budget = left_budget;
            let loads = &self.columns[column].loads;
            if loads.iter().zip(&*left).any(|(load, left)| load > left) {
                continue;
            }
            left.iter_mut()
                .zip(loads)
                .for_each(|(left, load)| *left -= load);
            chosen.push(column);
            if self.extend(left, wanted, place, chosen) {
                return true;
            }
            chosen.pop();
            left.iter_mut()
                .zip(loads)
                .for_each(|(left, load)| *left += load);
        }
        false
    }
}
