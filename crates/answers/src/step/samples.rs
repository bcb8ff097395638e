//! Samples for corrections: measured calls beside what is predicted for them.

use std::collections::{HashMap, HashSet};

use program::{Collective, Reduction};
use records::results::Table;

use super::calibration::{Measurements, Sample, Scope};
use super::places::{Place, Places};
use super::price::{CallKind, Price};
use super::pricing::Pricing;
use super::{StepError, StepQuestion, shapes};

impl Pricing<'_> {
    /// Measured calls of tables and traces, with what is predicted for each.
    pub(super) fn samples(
        &mut self,
        measurements: &Measurements,
        places: &Places,
    ) -> Result<Vec<Sample>, StepError> {
        let mut samples = Vec::new();
        let of_jobs: Vec<Table> = measurements.timed.clone().tables().collect();
        for table in measurements.tables.iter().chain(&of_jobs) {
            let ranks = table.rank_count().unwrap_or(0);
            if ranks > places.ranks() {
                return Err(StepError::MeasuredRanks {
                    file: table.file.clone(),
                    measured: ranks,
                    cluster: places.ranks(),
                });
            }
            let (Some(collective), 2..) = (table.collective, ranks) else {
                continue;
            };
            let its: Vec<Place> = match &table.timing {
                None => (0..ranks).filter_map(|rank| places.place(rank)).collect(),
                // A rank that waits for others that wrote nothing takes longer.
                Some(timing) if timing.ranks < ranks => {
                    return Err(StepError::MeasuredPart {
                        file: table.file.clone(),
                        known: timing.ranks,
                        ranks,
                    });
                }
                Some(_) => spread(places, ranks, table.host_count().unwrap_or(1)),
            };
            if its.len() < ranks as usize {
                return Err(StepError::MeasuredRanks {
                    file: table.file.clone(),
                    measured: ranks,
                    cluster: places.ranks(),
                });
            }
            let shape = shapes::shape(&its, self.domain_hosts());
            let at = self.planner.plan("measured", &shape)?;
            for row in &table.rows {
                let kind = CallKind {
                    group: 0,
                    collective,
                    tokens: None,
                    bytes: row.bytes,
                    data_type: row.element.parse().unwrap_or_default(),
                    reduction: Reduction::Sum,
                };
                let plans = self.planner.get(at);
                let price = self.pricer.price(plans, at, &kind, ("measured", 1.0));
                if let (Ok(price), Some(measured)) = (price, row.measured()) {
                    samples.push(sample(collective, its_hosts(&its), price, measured.time_us));
                }
            }
        }
        for trace in &measurements.traces {
            let question = StepQuestion {
                workload: trace,
                measurements: None,
                ..*self.question
            };
            let mut pricing = Pricing::new(self.job, self.settings, &question);
            pricing.begin(places)?;
            let answer = pricing.answer(places)?;
            for call in &answer.calls {
                if let Some(measured) = call.measured {
                    let group = &answer.groups[call.kind.group];
                    let hosts = group.alike.get(call.price.slowest).map_or(1, |it| it.hosts);
                    let collective = call.kind.collective;
                    samples.push(sample(collective, hosts, call.price, measured.median_us));
                }
            }
        }
        samples.retain(|it| it.measured_us > 0.0 && it.time_us > 0.0);
        Ok(samples)
    }
}

/// The first ranks of each of the first hosts, as many of each, host by host.
fn spread(places: &Places, ranks: u32, hosts: u32) -> Vec<Place> {
    let (each, mut of_host) = (ranks / hosts.max(1), HashMap::new());
    let all = (0..places.ranks()).filter_map(|rank| places.place(rank));
    let mut its: Vec<Place> = all
        .filter(|it| {
            let known = of_host.len() as u32;
            let count: &mut u32 = match it.host {
                host if known < hosts => of_host.entry(host).or_default(),
                host => match of_host.get_mut(&host) {
                    Some(count) => count,
                    None => return false,
                },
            };
            *count += 1;
            *count <= each
        })
        .collect();
    its.sort_by_key(|it| it.host);
    its
}

/// Hosts at some places.
fn its_hosts(places: &[Place]) -> u32 {
    let hosts: HashSet<u32> = places.iter().map(|it| it.host).collect();
    hosts.len() as u32
}

fn sample(collective: Collective, hosts: u32, price: Price, measured_us: f64) -> Sample {
    Sample {
        scope: Scope {
            collective,
            across: hosts > 1,
        },
        latency_us: price.latency_us,
        time_us: price.time_us,
        measured_us,
    }
}
