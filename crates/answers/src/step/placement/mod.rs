//! A better placement of a step's ranks on GPUs and hosts.
//!
//! Orders that keep the ranks of one group together, then those of the next, are priced for every
//! order of groups; then two GPUs of every host are exchanged as long as that helps. In reading
//! order: this file, `candidates` (orders by groups), [`floor`] (what no order is faster than),
//! [`launch`] (files of launchers), [`json`].

mod candidates;
pub mod floor;
pub mod json;
pub mod launch;

use std::collections::HashSet;

use planner::{Job, Settings};

pub use floor::Floor;

use super::places::Places;
use super::pricing::{Priced, Pricing};
use super::{StepError, StepQuestion};
use candidates::candidates;

/// Orders that are priced unless the question says more or fewer.
pub const ORDERS: usize = 500;

/// A gain below this share of the step is none.
const LEAST_GAIN: f64 = 1e-6;

/// A placement of ranks, beside that of the job.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// The slot of each rank: the number of its GPU, counted host after host by device number.
    pub slots: Vec<u32>,
    /// Device numbers of the GPUs of each host.
    pub devices: Vec<i32>,
    /// The step in the order of the job, and in this one, µs.
    pub step_us: [f64; 2],
    /// The groups of which the time changes.
    pub groups: Vec<MovedGroup>,
    /// Orders that were priced.
    pub tried: usize,
    /// Whether the search ended by itself, and not because it had priced enough.
    pub ended: bool,
    /// What no order of a class is faster than.
    pub floor: Option<Floor>,
}

/// A group before and after.
#[derive(Debug, Clone, PartialEq)]
pub struct MovedGroup {
    /// Its name.
    pub name: String,
    /// Time of all its calls, µs.
    pub time_us: [f64; 2],
    /// What computation waits for, µs.
    pub exposed_us: [f64; 2],
    /// Fewest and most hosts of a communicator.
    pub hosts: [[u32; 2]; 2],
}

impl Placement {
    /// Whether it is better than the order of the job.
    pub fn is_better(&self) -> bool {
        self.step_us[1] < self.step_us[0] * (1.0 - LEAST_GAIN)
    }
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
    let floor = floor::floor(&mut search.pricing, &places, &best)?;
    Ok(Placement {
        slots,
        devices,
        step_us: [given.step_us(), best.step_us()],
        groups: moved(&given, &best),
        tried,
        ended,
        floor,
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
            let hosts = group.alike.iter().map(|it| it.shape.hosts());
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
