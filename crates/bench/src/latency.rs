//! Times of single launches.

use std::time::{Duration, Instant};

use anyhow::Result;
use backend_cpu::Cpu;
use executor::{Choice, Communicator, Reduction};

use crate::Spec;
use crate::combine::combine;
use crate::pace::Pace;
use crate::row::Latency;

/// Launches that are timed in a row before the ranks compare their times.
const CHUNK: u64 = 4096;

/// Length of the all-reduce that compares them, bytes.
pub(crate) const CHUNK_BYTES: u64 = (CHUNK + 1) * 8;

/// Most launches that are timed one by one.
const MOST: usize = 1 << 18;

/// A launch, or two that are timed as one.
pub(crate) type Launch<'a> = dyn FnMut(&mut Communicator<Cpu>) -> Result<(), executor::Error> + 'a;

/// Times launches one by one for the time of a figure. `each` is the expected time of one.
///
/// A pass of its own, because reading the clock costs a tenth of the shortest launches.
pub(crate) fn measure(
    communicator: &mut Communicator<Cpu>,
    spec: &Spec,
    choice: Choice,
    each: Duration,
    launch: &mut Launch<'_>,
) -> Result<Latency> {
    let wanted = Duration::from_millis(spec.time_ms);
    let mut pace = Pace::new(wanted.as_secs_f64() * 1e6, Some(each.as_secs_f64() * 1e6));
    let mut missing = spec.iterations.map(u64::from);
    let mut all = Vec::new();
    let began = Instant::now();
    loop {
        let chunk = missing.unwrap_or_else(|| pace.next()).min(CHUNK) as usize;
        agreed(communicator, Some(choice), &mut [0])?;
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
        agreed(communicator, Some(choice), &mut times)?;
        let spent = Duration::from_nanos(times.pop().unwrap_or(u64::MAX));
        // Memory that others write may hold any times.
        let taken_ns: f64 = times.iter().map(|it| *it as f64).sum();
        pace.took(chunk as u64, taken_ns / 1e3);
        all.append(&mut times);
        missing = missing.map(|missing| missing.saturating_sub(chunk as u64));
        let ends = missing.map_or(spent >= wanted, |missing| missing == 0);
        if ends || all.len() + chunk > MOST {
            return Ok(Latency::of(all));
        }
    }
}

/// Replaces each number by the largest of all ranks, and sets `choice` again.
pub(crate) fn agreed(
    communicator: &mut Communicator<Cpu>,
    choice: Option<Choice>,
    numbers: &mut [u64],
) -> Result<()> {
    combine(communicator, numbers, Reduction::Maximum)?;
    communicator.set_choice(choice);
    Ok(())
}

/// A time, ns.
pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
