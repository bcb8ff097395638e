//! Predicted times corrected by measurements on the same cluster.
//!
//! A predicted time is a latency (that of a message of a byte with the same algorithm and
//! protocol) and the rest. Measurements of a collective, inside hosts or across them, say how
//! many times longer each of the two really is: the least squares of relative errors, neither
//! negative. What this leaves is interpolated between the measurements with the nearest predicted
//! times, if that is better: other sizes take other algorithms. Measurements that were left out,
//! each in turn, judge this, and how far the corrected times are off.

use std::io::Read;

use planner::cost::CostProfile;
use program::Collective;
use records::results::Table;
use records::results::inspector::Timed;
use serde::{Serialize, Serializer};
use workload::{Files, Workload};

use crate::{JsonSchema, results};

/// Most bytes of a file of measurements.
const MOST_BYTES: u64 = 1 << 30;

/// Fewest measurements that tell latency and the rest apart.
const FEWEST_FOR_BOTH: usize = 3;

/// Fewest measurements between which is interpolated.
const FEWEST_FOR_BETWEEN: usize = 4;

/// Measurements of the cluster.
#[derive(Debug, Clone, Default)]
pub struct Measurements {
    /// Tables of nccl-tests: their ranks are the first ones of the job.
    pub tables: Vec<Table>,
    /// Calls of jobs, in communicators whose first ranks of each host are those of the job's first
    /// hosts.
    pub(super) timed: Timed,
    /// Steps that were traced.
    pub traces: Vec<Workload>,
    /// Constants that were fitted to this cluster; NCCL chooses by its own.
    pub profile: Option<CostProfile>,
}

impl Measurements {
    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        let has_times = !self.tables.is_empty() || self.timed.times() > 0;
        !has_times && self.traces.is_empty() && self.profile.is_none()
    }

    /// Reads one more file: a cost profile (TOML) that was fitted to measurements, a table of
    /// nccl-tests, calls that NCCL's Inspector timed (of a rank a file), or a trace of PyTorch's
    /// profiler. `ranks` is the number of ranks of the job.
    ///
    /// # Errors
    /// It is none of these; a sentence.
    pub fn add(&mut self, name: &str, file: &mut impl Read, ranks: u32) -> Result<(), String> {
        let mut bytes = Vec::new();
        let read = file.take(MOST_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|why| format!("{name}: it cannot be read: {why}"))?;
        if bytes.len() as u64 > MOST_BYTES {
            return Err(format!("{name} is larger than {} MiB", MOST_BYTES >> 20));
        }
        let expected = "expected a table of nccl-tests, files of NCCL's Inspector, a trace of PyTorch's profiler, or a fitted cost profile";
        let text = std::str::from_utf8(&bytes)
            .map_err(|_| format!("{name} is no text (UTF-8); {expected}"))?;
        if text.contains("[base-latency-us") {
            let profile = CostProfile::from_toml(name, text).map_err(|why| why.to_string())?;
            self.profile = Some(profile);
            return Ok(());
        }
        if let Ok(read) = results::read::read(name, text, &mut self.timed)
            && (read.is_of_job || !read.tables.is_empty())
        {
            self.tables
                .extend(read.tables.into_iter().map(|it| it.table));
            return Ok(());
        }
        let mut files = Files::default();
        let read = files.add(name, &mut &bytes[..], ranks);
        let trace = read.and_then(|()| files.workload(ranks));
        let trace = trace.map_err(|why| format!("{why}; {expected}"))?;
        if trace.measured.is_empty() {
            return Err(format!("{name} has no measured times; {expected}"));
        }
        self.traces.push(trace);
        Ok(())
    }
}

/// A measured call beside its prediction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    pub(super) scope: Scope,
    /// Predicted time of a message of a byte, µs.
    pub(super) latency_us: f64,
    /// Predicted time, µs.
    pub(super) time_us: f64,
    /// Measured time, µs.
    pub(super) measured_us: f64,
}

/// What measurements speak of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Scope {
    /// The collective.
    pub collective: Collective,
    /// Whether its communicators have several hosts.
    pub across: bool,
}

/// The correction of the times of a collective, inside hosts or across them.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Correction {
    /// What was measured.
    #[serde(flatten)]
    pub scope: Scope,
    /// How many times longer a message of a byte takes than predicted.
    pub latency: f64,
    /// How many times longer the rest takes.
    pub rest: f64,
    /// Predicted times, µs, ascending, with how many times longer than by these two the
    /// measurements took; empty if these two alone do better. In JSON: whether times are also
    /// interpolated between measurements.
    #[serde(rename = "interpolated", serialize_with = "are_any")]
    #[schemars(with = "bool")]
    pub left: Vec<[f64; 2]>,
    /// Kinds of calls that were measured.
    pub samples: usize,
    /// Median and worst error of predicted times, as shares of measured ones.
    #[serde(rename = "error")]
    pub before: [f64; 2],
    /// The same of corrected times, each by all other measurements; null if there are none.
    #[serde(rename = "held_out_error")]
    pub held_out: [f64; 2],
    /// Shortest and longest measured time by the corrected one.
    #[serde(skip)]
    pub range: [f64; 2],
}

fn are_any<S: Serializer>(list: &[[f64; 2]], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_bool(!list.is_empty())
}

/// The corrections of a cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Calibration {
    /// By scope.
    pub corrections: Vec<Correction>,
}

impl Calibration {
    /// The corrections that samples say.
    pub(super) fn of(samples: &[Sample]) -> Self {
        let mut scopes: Vec<Scope> = Vec::new();
        for sample in samples {
            if !scopes.contains(&sample.scope) {
                scopes.push(sample.scope);
            }
        }
        let corrections = scopes.into_iter().filter_map(|scope| {
            let its = samples.iter().copied().filter(|it| it.scope == scope);
            correction(scope, &its.collect::<Vec<_>>())
        });
        Self {
            corrections: corrections.collect(),
        }
    }

    /// The correction of a scope: its own, or that of the nearest one that was measured.
    pub(super) fn find(&self, scope: Scope) -> Option<&Correction> {
        let nearness = |it: &&Correction| {
            let across = it.scope.across == scope.across;
            let collective = it.scope.collective == scope.collective;
            (across, collective, it.samples)
        };
        self.corrections.iter().max_by_key(nearness)
    }
}

impl Correction {
    /// The corrected time, µs.
    pub(super) fn time_us(&self, latency_us: f64, time_us: f64) -> f64 {
        corrected([self.latency, self.rest], latency_us, time_us) * between(&self.left, time_us)
    }
}

fn corrected([latency, rest]: [f64; 2], latency_us: f64, time_us: f64) -> f64 {
    let latency_us = latency_us.min(time_us);
    latency * latency_us + rest * (time_us - latency_us)
}

fn correction(scope: Scope, samples: &[Sample]) -> Option<Correction> {
    let [latency, rest] = factors(samples)?;
    let before: Vec<f64> = samples
        .iter()
        .map(|it| it.time_us / it.measured_us - 1.0)
        .collect();
    let mut held_out = left_out(samples, false);
    let mut left = Vec::new();
    if samples.len() >= FEWEST_FOR_BETWEEN {
        let errors = left_out(samples, true);
        if median_and_worst(errors.clone())[0] < median_and_worst(held_out.clone())[0] {
            held_out = errors;
            left = what_is_left(samples, [latency, rest]);
        }
    }
    let by_corrected = held_out.iter().map(|error| 1.0 / (1.0 + error));
    let range = [
        by_corrected.clone().fold(1.0, f64::min),
        by_corrected.fold(1.0, f64::max),
    ];
    Some(Correction {
        scope,
        latency,
        rest,
        left,
        samples: samples.len(),
        before: median_and_worst(before),
        held_out: median_and_worst(held_out),
        range,
    })
}

/// The error of each measurement that all others correct, as a share of it.
fn left_out(samples: &[Sample], interpolates: bool) -> Vec<f64> {
    let mut errors = Vec::new();
    for at in 0..samples.len() {
        let mut others = samples.to_vec();
        let it = others.remove(at);
        let Some(factors) = factors(&others) else {
            continue;
        };
        let left = match interpolates {
            true => what_is_left(&others, factors),
            false => Vec::new(),
        };
        let time = corrected(factors, it.latency_us, it.time_us) * between(&left, it.time_us);
        errors.push(time / it.measured_us - 1.0);
    }
    errors
}

/// Predicted times in order, with how many times longer than corrected by these factors the
/// measurements took, on average.
fn what_is_left(samples: &[Sample], factors: [f64; 2]) -> Vec<[f64; 2]> {
    let mut all: Vec<[f64; 2]> = samples
        .iter()
        .map(|it| {
            let time = corrected(factors, it.latency_us, it.time_us);
            [it.time_us, it.measured_us / time]
        })
        .filter(|[_, times]| times.is_finite())
        .collect();
    all.sort_by(|a, b| a[0].total_cmp(&b[0]));
    let equal = all.chunk_by(|a, b| a[0] == b[0]);
    equal
        .map(|its| {
            let sum: f64 = its.iter().map(|it| it[1]).sum();
            [its[0][0], sum / its.len() as f64]
        })
        .collect()
}

/// How many times longer a predicted time is than by factors alone: between two measurements on
/// logarithmic scales, outside as the nearest one.
fn between(left: &[[f64; 2]], time_us: f64) -> f64 {
    let next = left.partition_point(|it| it[0] < time_us);
    match (
        next.checked_sub(1).and_then(|at| left.get(at)),
        left.get(next),
    ) {
        (Some([from, a]), Some([to, b])) => {
            let share = (time_us / from).ln() / (to / from).ln();
            a * (b / a).powf(share)
        }
        (Some([_, times]), None) | (None, Some([_, times])) => *times,
        (None, None) => 1.0,
    }
}

/// Of absolute errors, with the sign of the worst.
fn median_and_worst(mut errors: Vec<f64>) -> [f64; 2] {
    errors.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let median = errors.get(errors.len() / 2).map_or(f64::NAN, |it| it.abs());
    [median, errors.last().copied().unwrap_or(f64::NAN)]
}

/// How many times longer latency and the rest are, by the least squares of relative errors.
fn factors(samples: &[Sample]) -> Option<[f64; 2]> {
    let part = |it: &Sample| {
        let latency = it.latency_us.min(it.time_us);
        [latency, it.time_us - latency].map(|us| us / it.measured_us)
    };
    let parts: Vec<[f64; 2]> = samples.iter().map(part).collect();
    let sum = |of: &dyn Fn(&[f64; 2]) -> f64| parts.iter().map(of).sum::<f64>();
    let one = |of: &dyn Fn(&[f64; 2]) -> f64| {
        let factor = sum(of) / sum(&|it| of(it) * of(it));
        factor.is_finite().then_some(factor)
    };
    let whole = || one(&|it| it[0] + it[1]).map(|it| [it, it]);
    if samples.len() < FEWEST_FOR_BOTH {
        return whole();
    }
    let [aa, ab, bb] = [
        sum(&|it| it[0] * it[0]),
        sum(&|it| it[0] * it[1]),
        sum(&|it| it[1] * it[1]),
    ];
    let [a, b] = [sum(&|it| it[0]), sum(&|it| it[1])];
    let determinant = aa * bb - ab * ab;
    if determinant <= 1e-9 * aa * bb {
        return whole();
    }
    let both = [
        (a * bb - b * ab) / determinant,
        (b * aa - a * ab) / determinant,
    ];
    match both {
        [latency, rest] if latency >= 0.0 && rest >= 0.0 => Some(both),
        [latency, _] if latency < 0.0 => one(&|it| it[1]).map(|rest| [0.0, rest]),
        _ => one(&|it| it[0]).map(|latency| [latency, 0.0]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCOPE: Scope = Scope {
        collective: Collective::AllReduce,
        across: false,
    };

    fn sample(time_us: f64, measured_us: f64) -> Sample {
        Sample {
            scope: SCOPE,
            latency_us: 10.0,
            time_us,
            measured_us,
        }
    }

    #[test]
    fn latency_and_the_rest_are_told_apart() {
        let times = [12.0, 30.0, 100.0, 1000.0];
        let samples = times.map(|time| sample(time, 30.0 + 1.2 * (time - 10.0)));
        let found = Calibration::of(&samples);
        let found = found.find(SCOPE).expect("it was measured");
        assert!((found.latency - 3.0).abs() < 1e-9, "{found:?}");
        assert!((found.rest - 1.2).abs() < 1e-9, "{found:?}");
        assert!(found.held_out[1].abs() < 1e-9, "{found:?}");
        assert!(found.before[0] > 0.2, "{found:?}");
    }

    #[test]
    fn what_factors_leave_is_interpolated() {
        // From 100 µs on another algorithm takes twice as long.
        let times = [20.0, 30.0, 50.0, 100.0, 200.0, 400.0, 800.0];
        let samples = times.map(|time| sample(time, time * if time < 100.0 { 1.0 } else { 2.0 }));
        let found = Calibration::of(&samples);
        let found = found.find(SCOPE).expect("it was measured");
        assert_eq!(found.left.len(), times.len(), "{found:?}");
        for (time, expected) in [(20.0, 20.0), (400.0, 800.0), (1600.0, 3200.0)] {
            let time = found.time_us(10.0, time);
            assert!((time / expected - 1.0).abs() < 0.1, "{time}: {found:?}");
        }
    }

    #[test]
    fn few_measurements_scale_the_whole() {
        let found = Calibration::of(&[sample(20.0, 30.0), sample(200.0, 300.0)]);
        let found = found.find(SCOPE).expect("it was measured");
        assert!(
            (found.time_us(10.0, 100.0) - 150.0).abs() < 1e-9,
            "{found:?}"
        );
    }

    #[test]
    fn no_factor_is_negative() {
        let samples = [
            sample(12.0, 1.0),
            sample(100.0, 150.0),
            sample(1000.0, 1500.0),
        ];
        let found = Calibration::of(&samples);
        let found = found.find(SCOPE).expect("it was measured");
        assert!(found.latency >= 0.0 && found.rest >= 0.0, "{found:?}");
    }
}
