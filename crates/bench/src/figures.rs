//! Bandwidths as nccl-tests defines them, and how figures are written.

use crate::report::RunReport;
use crate::row::{FigureTiming, RunRow};

/// Bytes of the message per time, GB/s.
pub fn algorithm(bytes: u64, time_us: f64) -> f64 {
    bytes as f64 / time_us / 1000.0
}

/// Bus bandwidth, GB/s: the load of the busiest link, as nccl-tests reports it.
pub fn bus(report: &RunReport, bytes: u64, time_us: f64) -> f64 {
    algorithm(bytes, time_us) * report.spec.collective.bus_factor(report.spec.ranks)
}

/// A time, µs, with at least three digits.
pub fn micros(time_us: f64) -> String {
    match time_us {
        1000.0.. => format!("{time_us:.0}"),
        100.0.. => format!("{time_us:.1}"),
        _ => format!("{time_us:.2}"),
    }
}

/// A bandwidth, GB/s, with two decimals.
pub fn gbps(value: f64) -> String {
    format!("{value:.2}")
}

/// The mean of some figures, if there are any.
pub fn average(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Bus bandwidths of all rows with two buffers, and in place, GB/s.
pub fn bandwidths(report: &RunReport) -> [Vec<f64>; 2] {
    let of = |timing: fn(&RunRow) -> Option<FigureTiming>| {
        let figures = report
            .rows
            .iter()
            .filter_map(|row| Some((row.bytes, timing(row)?)));
        let all = figures.map(|(bytes, timing)| bus(report, bytes, timing.time_us));
        all.collect()
    };
    [of(|row| Some(row.separate)), of(|row| row.in_place)]
}

/// Mean bus bandwidth over all rows and both placements, GB/s, as nccl-tests computes it.
pub fn average_bandwidth(report: &RunReport) -> Option<f64> {
    average(&bandwidths(report).concat())
}
