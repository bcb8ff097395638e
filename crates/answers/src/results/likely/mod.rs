//! Likely causes of measurements below their floors: the same job is planned and priced with each
//! fault, and the faults whose bandwidths are nearest to the measured one come first.
//!
//! In reading order: this file, `faults`, `detours`.

mod detours;
mod faults;

use findings::causes::Cause;
use findings::causes::table::{network, settings};
use plan::CostTable;
use plan::cost::TunedOperation;
use planner::{Job, Planned};
use records::results::ladder::ComparedRow;
use records::results::shortfall::{Kind, Shortfall};
use serde::Serialize;

use super::ComparedTable;
use crate::JsonSchema;
use faults::Fault;

/// Causes whose bandwidths are this much farther from the measured one than the nearest explain a
/// miss as well, as a logarithm: 15 %. Runs of one machine are up to 6 % apart, and NCCL's model is
/// up to 10 % off.
const ALIKE: f64 = 0.14;

/// Host bridges carry at least this share of what the links of a detour would: 13.1 GB/s of 24 in
/// NVIDIA/nccl 2409.
const LEAST_OF_DETOUR: f64 = 0.5;

/// A fault that leaves more than this share of the bandwidth explains no miss.
const HARMLESS: f64 = 0.97;

/// Settings that slow a job by themselves.
const SLOW_SETTINGS: [(&str, &[&str], &Cause); 5] = [
    ("NCCL_P2P_DISABLE", &["1"], &settings::P2P_DISABLED),
    ("NCCL_IB_DISABLE", &["1"], &settings::IB_DISABLED),
    ("NCCL_NET_GDR_LEVEL", &["0", "LOC"], &settings::GDR_LEVEL),
    ("NCCL_IB_SPLIT_DATA_ON_QPS", &["1"], &settings::SPLIT_QPS),
    ("NCCL_NET", &["Socket"], &network::SOCKETS_ONLY),
];

/// A cause that may explain a miss.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LikelyCause {
    /// Its id, as in the causes of a diagnosis.
    pub cause: &'static str,
    /// The problem, in a few words.
    pub title: &'static str,
    /// The links, ports or hosts that would have it.
    pub place: String,
    /// Bus bandwidth that a healthy machine with this fault is expected to reach, GB/s; null if the
    /// job's settings show the cause.
    pub expected_gbps: Option<f64>,
    /// This is the most that is left; it may be half of it.
    pub at_most: bool,
    /// What to do.
    pub advice: &'static str,
}

/// Sizes below their floors.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Miss {
    /// The size that is farthest below, bytes.
    pub bytes: u64,
    /// Its bus bandwidth, GB/s.
    pub bus_bandwidth_gbps: f64,
    /// The causes, the likely ones first.
    pub likely_causes: Vec<LikelyCause>,
}

impl LikelyCause {
    const fn of(cause: &'static Cause, place: String) -> Self {
        Self {
            cause: cause.id,
            title: cause.title,
            place,
            expected_gbps: None,
            at_most: false,
            advice: cause.advice,
        }
    }
}

/// A job with the costs of its faults.
#[derive(Debug, Default)]
pub(super) struct PlantedFaults {
    costs: Vec<(Fault, CostTable)>,
}

impl PlantedFaults {
    /// Plans a job with each fault that it can have.
    pub(super) fn of(job: &Job, planned: &Planned) -> Self {
        let faults = faults::all(job, planned).into_iter();
        let costs = faults.filter_map(|fault| {
            let costs = fault.costs(job, planned)?;
            Some((fault, costs))
        });
        Self {
            costs: costs.collect(),
        }
    }

    /// The misses of a table.
    pub(super) fn misses(
        &self,
        table: &ComparedTable,
        healthy: &CostTable,
        variables: &[(String, String)],
    ) -> Vec<Miss> {
        let below = table.shortfalls.iter();
        let below = below.filter(|it| it.kind == Kind::BelowFloor);
        let rows = below.filter_map(|it| worst(&table.rows, it));
        let misses = rows.map(|row| Miss {
            bytes: row.bytes,
            bus_bandwidth_gbps: row.bus_gbps,
            likely_causes: self.causes(table, row, healthy, variables),
        });
        misses.collect()
    }

    fn causes(
        &self,
        table: &ComparedTable,
        row: &ComparedRow,
        healthy: &CostTable,
        variables: &[(String, String)],
    ) -> Vec<LikelyCause> {
        let mut found: Vec<(f64, LikelyCause)> = Vec::new();
        let parts = (table.collective, row.choice(), row.expected_gbps);
        let (Some(collective), Some(choice), Some(expected)) = parts else {
            return Vec::new();
        };
        let operation = TunedOperation::new(collective, row.bytes);
        let whole = healthy.time_us(&operation, choice);
        for (fault, costs) in &self.costs {
            let own = costs.choose_for(&operation).ok().map(|it| it.time_us);
            let kept = costs.time_us(&operation, choice).filter(|it| *it > 0.0);
            let time = if fault.is_unseen() { kept.or(own) } else { own };
            let (Some(whole), Some(time)) = (whole, time) else {
                continue;
            };
            let left = f64::from(whole / time);
            if !(left > 0.0 && left < HARMLESS) {
                continue;
            }
            let gbps = expected * left;
            let least = match fault.is_unseen() {
                true => LEAST_OF_DETOUR * gbps,
                false => gbps,
            };
            let distance = (row.bus_gbps / row.bus_gbps.clamp(least, gbps)).ln().abs();
            let likely = LikelyCause {
                expected_gbps: Some(gbps),
                at_most: fault.is_unseen(),
                ..LikelyCause::of(fault.cause, fault.place.clone())
            };
            match found.iter_mut().find(|it| it.1.cause == fault.cause.id) {
                Some(known) if distance < known.0 => *known = (distance, likely),
                Some(_) => {}
                None => found.push((distance, likely)),
            }
        }
        let mut causes: Vec<LikelyCause> = set(variables).collect();
        causes.extend(ranked(found));
        causes
    }
}

/// The nearest first; those that are about as near as the nearest in the order in which they are.
fn ranked(mut found: Vec<(f64, LikelyCause)>) -> impl Iterator<Item = LikelyCause> {
    let nearest = found.iter().map(|it| it.0).min_by(f64::total_cmp);
    let alike = nearest.unwrap_or(0.0) + ALIKE;
    found.sort_by(|a, b| a.0.max(alike).total_cmp(&b.0.max(alike)));
    found.into_iter().map(|it| it.1)
}

/// The causes that settings of the job show.
fn set(variables: &[(String, String)]) -> impl Iterator<Item = LikelyCause> {
    SLOW_SETTINGS.iter().filter_map(|(name, values, cause)| {
        let given = variables.iter().rev().find(|it| it.0 == *name)?;
        let is_slow = values.contains(&given.1.as_str());
        is_slow.then(|| LikelyCause::of(cause, format!("{name}={} is set", given.1)))
    })
}

/// The size of a shortfall that is farthest below what is expected.
fn worst<'a>(rows: &'a [ComparedRow], shortfall: &Shortfall) -> Option<&'a ComparedRow> {
    let share = ComparedRow::expected_share;
    let sizes = shortfall.from_bytes..=shortfall.to_bytes;
    let rows = rows.iter().filter(|row| sizes.contains(&row.bytes));
    rows.min_by(|a, b| share(a).total_cmp(&share(b)))
}
