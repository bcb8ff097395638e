//! Measured links as JSON, as a part of answers.

use crate::JsonSchema;
use serde::Serialize;

use super::fit::Capacity;
use super::{Check, MeasuredDirection, MeasuredLink, MeasuredLinks};

/// The links of the machine, as measurements show them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MeasuredLinksReport {
    /// The file with the measurements.
    source: String,
    /// The links that measured transfers crossed.
    links: Vec<LinkReport>,
    /// Links that every transfer crosses together: only the least of their capacities is known.
    in_series: Vec<SeriesReport>,
    /// Links of which at least one limits some transfers, and which one cannot be told.
    not_separable: Vec<JointReport>,
    /// What the capacities say of each measurement.
    checks: Vec<CheckReport>,
    /// What of the file was not used, and what no capacity of a link explains.
    notes: Vec<String>,
    /// The time of a step with Simple, if latencies were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    simple_step: Option<StepReport>,
}

/// The time of a step with Simple inside a host.
#[derive(Debug, Serialize, JsonSchema)]
struct StepReport {
    /// Mean latency of a write over a hop of the rings, µs.
    hop_us: f64,
    /// What NCCL takes a step for, µs.
    nccl_us: f64,
    /// The time that is used, µs.
    used_us: f64,
}

/// A link in one direction.
#[derive(Debug, Serialize, JsonSchema)]
struct LinkReport {
    /// Where it begins.
    from: String,
    /// Where it ends.
    to: String,
    /// Its type.
    kind: &'static str,
    /// What NCCL takes it for, GB/s.
    nccl_gbps: f32,
    /// What was seen, GB/s.
    measured_gbps: f64,
    /// What the seen bandwidth is: `known` (it limits transfers, and nothing else can), `one-of`
    /// (it or another of `not_separable` is the limit), `at-least` (it never limits one).
    certainty: &'static str,
    /// Its place in `not_separable`; null if it can be told apart.
    not_separable: Option<u32>,
    /// Its place in `in_series`; null if some transfer crosses it alone.
    in_series: Option<u32>,
    /// The bandwidth that is used, GB/s.
    used_gbps: f32,
}

/// Links in series.
#[derive(Debug, Serialize, JsonSchema)]
struct SeriesReport {
    /// The links.
    links: Vec<String>,
    /// The capacity of the least of them, GB/s.
    gbps: f64,
}

/// Links that cannot be told apart.
#[derive(Debug, Serialize, JsonSchema)]
struct JointReport {
    /// The links.
    links: Vec<String>,
    /// The least that one of them shows, GB/s.
    least_gbps: f64,
    /// The most that one of them shows, GB/s.
    most_gbps: f64,
}

/// What the capacities say of a measurement.
#[derive(Debug, Serialize, JsonSchema)]
struct CheckReport {
    /// The test.
    test: String,
    /// Values.
    values: usize,
    /// Whether capacities were fitted to it.
    fitted: bool,
    /// Half of the values are within this share of what the capacities give.
    median_error: f64,
    /// The value that is farthest off.
    worst: String,
    /// What was measured there, GB/s.
    worst_measured_gbps: f64,
    /// What the capacities give there, GB/s.
    worst_expected_gbps: f64,
}

impl MeasuredLinksReport {
    /// The links.
    pub fn of(measured: &MeasuredLinks) -> Self {
        let series = measured.in_series.iter();
        let joint = measured.joint.iter();
        Self {
            source: measured.source.clone(),
            links: measured.links.iter().flat_map(LinkReport::of).collect(),
            in_series: series
                .map(|(links, gbps)| SeriesReport {
                    links: links.clone(),
                    gbps: *gbps,
                })
                .collect(),
            not_separable: joint
                .map(|(links, least, most)| JointReport {
                    links: links.clone(),
                    least_gbps: *least,
                    most_gbps: *most,
                })
                .collect(),
            checks: measured.checks.iter().map(CheckReport::of).collect(),
            notes: measured.notes.clone(),
            simple_step: measured.step.map(|it| StepReport {
                hop_us: it.hop_us,
                nccl_us: it.stated_us,
                used_us: it.used_us(),
            }),
        }
    }
}

impl LinkReport {
    fn of(link: &MeasuredLink) -> impl Iterator<Item = Self> + '_ {
        let directions = link.directions.iter().enumerate();
        directions.filter_map(|(at, direction)| {
            let found: &MeasuredDirection = direction.as_ref()?;
            let (certainty, set) = match found.capacity {
                Capacity::Known(_) => ("known", None),
                Capacity::OneOf { set, .. } => ("one-of", Some(set)),
                Capacity::AtLeast(_) => ("at-least", None),
            };
            Some(Self {
                from: link.ends[at].clone(),
                to: link.ends[1 - at].clone(),
                kind: link.kind.name(),
                nccl_gbps: found.stated,
                measured_gbps: found.capacity.gbps(),
                certainty,
                not_separable: set,
                in_series: found.series,
                used_gbps: found.used,
            })
        })
    }
}

impl CheckReport {
    fn of(check: &Check) -> Self {
        let (worst, measured, expected) = &check.worst;
        Self {
            test: check.test.clone(),
            values: check.values,
            fitted: check.fitted,
            median_error: check.median,
            worst: worst.clone(),
            worst_measured_gbps: *measured,
            worst_expected_gbps: *expected,
        }
    }
}
