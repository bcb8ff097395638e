//! Times of single launches.

use std::time::{Duration, Instant};

use anyhow::Result;
use backend_cpu::Cpu;
use executor::{Choice, Communicator};
use serde::Serialize;

use super::Spec;
use super::bench::{Launch, agreed};

/// Launches that are timed in a row before the ranks compare their times.
const CHUNK: u64 = 4096;

/// Length of the all-reduce that compares them, bytes.
pub const CHUNK_BYTES: u64 = (CHUNK + 1) * 8;

/// Most launches that are timed one by one.
const MOST: usize = 1 << 18;

/// Times of single launches, each on the slowest rank, µs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Latency {
    /// The time that half of the launches do not exceed.
    pub p50_us: f64,
    /// The time that 99 % of the launches do not exceed; the maximum of fewer than 100.
    pub p99_us: f64,
    pub max_us: f64,
    pub launches: u64,
}

impl Latency {
    /// The percentiles of these times, ns.
    fn of(mut times: Vec<u64>) -> Self {
        times.sort_unstable();
        let percentile = |percent: usize| {
            let place = (times.len() * percent).div_ceil(100).saturating_sub(1);
            times.get(place).copied().unwrap_or(0) as f64 / 1e3
        };
        Self {
            p50_us: percentile(50),
            p99_us: percentile(99),
            max_us: percentile(100),
            launches: times.len() as u64,
        }
    }

    /// Of launches that each count as several.
    pub fn divided(self, by: f64) -> Self {
        Self {
            p50_us: self.p50_us / by,
            p99_us: self.p99_us / by,
            max_us: self.max_us / by,
            ..self
        }
    }
}

/// Times launches one by one for the time of a figure. `each` is the expected time of one.
///
/// A pass of its own, because reading the clock costs a tenth of the shortest launches.
pub fn measure(
    communicator: &mut Communicator<Cpu>,
    spec: &Spec,
    choice: Choice,
    each: Duration,
    launch: &mut Launch<'_>,
) -> Result<Latency> {
    let wanted = Duration::from_millis(spec.time_ms);
    let fill = (wanted.as_nanos() / each.as_nanos().max(1)).clamp(1, CHUNK.into());
    let mut missing = spec.iterations.map(u64::from);
    let mut all = Vec::new();
    let began = Instant::now();
    loop {
        let chunk = missing.map_or(fill as u64, |missing| missing.min(CHUNK)) as usize;
        agreed(communicator, choice, &mut [0])?;
        let mut times = Vec::with_capacity(chunk + 1);
        let mut before = Instant::now();
        for _ in 0..chunk {
            launch(communicator)?;
            let now = Instant::now();
            times.push(nanoseconds(now - before));
            before = now;
        }
        // The last number tells all ranks when to end.
        times.push(nanoseconds(before - began));
        agreed(communicator, choice, &mut times)?;
        let spent = Duration::from_nanos(times.pop().unwrap_or(u64::MAX));
        all.append(&mut times);
        missing = missing.map(|missing| missing.saturating_sub(chunk as u64));
        let ends = missing.map_or(spent >= wanted, |missing| missing == 0);
        if ends || all.len() + chunk > MOST {
            return Ok(Latency::of(all));
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
