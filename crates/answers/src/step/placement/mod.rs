//! A better placement of a step's ranks on GPUs and hosts.
//!
//! Orders that keep the ranks of one group together, then those of the next, are priced for every
//! order of groups; then two GPUs of every host are exchanged as long as that helps. In reading
//! order: this file, `candidates` (orders by groups), `floor` (what no order is faster than),
//! [`launch`] (files of launchers), `page`.

mod candidates;
mod floor;
pub mod launch;
mod page;

use std::collections::HashSet;

use planner::{Job, Settings};
use serde::Serialize;

use super::places::Places;
use super::pricing::{Priced, Pricing};
use super::{StepError, StepQuestion};
use crate::JsonSchema;
use candidates::candidates;

/// Orders that are priced unless the question says more or fewer.
pub const ORDERS: usize = 500;

/// A gain below this share of the step is none.
const LEAST_GAIN: f64 = 1e-6;

/// A placement of ranks beside the order of the job. Pairs are of that order and of this one.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Placement {
    /// The GPU of each rank; numbers of a host begin behind the largest of the host before.
    pub gpus: Vec<u32>,
    /// Whether it is better.
    #[serde(rename = "better")]
    pub is_better: bool,
    /// The step, µs.
    pub step_us: [f64; 2],
    /// The groups.
    pub groups: Vec<MovedGroup>,
    /// Orders that were priced.
    pub tried: usize,
    /// Whether the search ended by itself.
    pub ended: bool,
    /// No order that gives a communicator the same GPUs on each of its hosts takes less, µs; null
    /// if that is not known.
    pub floor_us: Option<f64>,
    /// The slot of each rank: the number of its GPU, counted host after host by device number.
    #[serde(skip)]
    pub slots: Vec<u32>,
    /// Device numbers of the GPUs of each host.
    #[serde(skip)]
    pub devices: Vec<i32>,
}

/// A group.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MovedGroup {
    /// Its name.
    pub name: String,
    /// Time of all its calls, µs.
    pub time_us: [f64; 2],
    /// Time that computation waits, µs.
    pub exposed_us: [f64; 2],
    /// Fewest and most hosts of a communicator.
    pub hosts: [[u32; 2]; 2],
}

/// Looks for the placement with the shortest step among at most `orders`.
///
/// # Errors
/// The workload does not fit the job, its hosts differ, or NCCL refuses a communicator.
pub fn place(
    job: &Job,
    settings: &Settings,
    question: &StepQuestion<'_>,
    orders: usize,
) -> Result<Placement, StepError> {
    let places = Places::of(job)?;
    let devices = places.alike().ok_or(StepError::UnequalHosts)?.to_vec();
    let mut pricing = Pricing::new(job, settings, question);
    pricing.begin(&places)?;
    let given = pricing.price(&places)?;
    let mut search = Search {
        pricing,
        places: &places,
        tried: HashSet::from([places.slots()]),
        orders,
        best: None,
        best_us: given.step_us(),
    };
    let each = devices.len() as u32;
    let levels = search.levels(each);
    let hosts = search.hosts();
    for order in candidates(question.workload, &places, &given.groups, &levels)? {
        // Hosts of a leaf switch need not have numbers in a row.
        let host = |slot: u32| hosts.get((slot / each) as usize).copied().unwrap_or(0);
        let order = order
            .into_iter()
            .map(|slot| host(slot) * each + slot % each);
        search.price(order.collect())?;
    }
    search.exchange_gpus(devices.len())?;
    let ended = search.tried.len() <= orders;
    let (slots, best) = match search.best.take() {
        Some((slots, best)) => (slots, best),
        None => (places.slots(), search.pricing.price(&places)?),
    };
    let tried = search.tried.len();
    let floor_us = floor::floor_us(&mut search.pricing, &places, &best)?;
    let step_us = [given.step_us(), best.step_us()];
    Ok(Placement {
        gpus: launch::gpus(&slots, &devices),
        is_better: step_us[1] < step_us[0] * (1.0 - LEAST_GAIN),
        step_us,
        groups: moved(&given, &best),
        tried,
        ended,
        floor_us,
        slots,
        devices,
    })
}

struct Search<'a> {
    pricing: Pricing<'a>,
    places: &'a Places,
    /// Orders that were priced.
    tried: HashSet<Vec<u32>>,
    orders: usize,
    /// The best one, unless that is the order of the job.
    best: Option<(Vec<u32>, Priced)>,
    best_us: f64,
}

impl Search<'_> {
    /// GPUs of a host, of an NVLink domain, under a leaf switch: those that are more than the one
    /// before, and of which the job has a whole number.
    fn levels(&self, host: u32) -> Vec<u32> {
        let hosts = self.places.hosts();
        let mut levels = vec![host];
        let leaf = self.pricing.question.leaf.map(|leaf| leaf.sizes(hosts));
        let leaf = leaf.and_then(|sizes| {
            let first = *sizes.first()?;
            sizes.iter().all(|it| *it == first).then_some(first)
        });
        for size in [Some(self.pricing.domain_hosts()), leaf]
            .into_iter()
            .flatten()
        {
            let last = levels.last().copied().unwrap_or(host) / host.max(1);
            if size > last
                && size < hosts
                && hosts.is_multiple_of(size)
                && size.is_multiple_of(last)
            {
                levels.push(size * host);
            }
        }
        levels
    }

    /// The hosts, those of each leaf switch together.
    fn hosts(&self) -> Vec<u32> {
        let mut hosts: Vec<u32> = (0..self.places.hosts()).collect();
        if let Some(leaf) = self.pricing.question.leaf {
            hosts.sort_by_key(|host| leaf.of_host(*host));
        }
        hosts
    }

    /// Prices an order, if that is still allowed. Whether it is the best so far.
    fn price(&mut self, slots: Vec<u32>) -> Result<bool, StepError> {
        if self.tried.len() > self.orders || !self.tried.insert(slots.clone()) {
            return Ok(false);
        }
        let priced = self.pricing.price(&self.places.with(slots.clone()))?;
        let is_better = priced.step_us() < self.best_us * (1.0 - LEAST_GAIN);
        if is_better {
            self.best_us = priced.step_us();
            self.best = Some((slots, priced));
        }
        Ok(is_better)
    }

    /// Exchanges two GPUs of every host as long as that helps.
    fn exchange_gpus(&mut self, gpus: usize) -> Result<(), StepError> {
        let each = gpus as u32;
        let mut again = true;
        while std::mem::take(&mut again) {
            for (one, other) in (0..each).flat_map(|one| (one + 1..each).map(move |it| (one, it))) {
                let slots = match &self.best {
                    Some((slots, _)) => slots.clone(),
                    None => self.places.slots(),
                };
                let exchanged = slots.into_iter().map(|slot| match slot % each {
                    it if it == one => slot - one + other,
                    it if it == other => slot - other + one,
                    _ => slot,
                });
                again |= self.price(exchanged.collect())?;
            }
        }
        Ok(())
    }
}

fn moved(given: &Priced, best: &Priced) -> Vec<MovedGroup> {
    let both = given.groups.iter().zip(&best.groups);
    let moved = both.map(|(before, after)| {
        let hosts = [before, after].map(|group| {
            let hosts = group.alike.iter().map(|it| it.hosts);
            [hosts.clone().min(), hosts.max()].map(|it| it.unwrap_or(0))
        });
        MovedGroup {
            name: before.name.clone(),
            time_us: [before.time_us, after.time_us],
            exposed_us: [before.exposed_us, after.exposed_us],
            hosts,
        }
    });
    moved.collect()
}
