//! Checking and timing one size on GPUs.

use std::time::{Duration, Instant};

use anyhow::Result;
use device_runtime::{DeviceDriver, ProcessRanks};
use executor::check::{self, Check, Sample};
use executor::{Choice, Reduction};

use super::Gpu;
use crate::{FigureTiming, Launches, Spec};

const MOST_LAUNCHES: u32 = 1 << 14;

/// Batches of which the median is taken.
const BATCHES: usize = 3;

/// One size on one rank.
pub(super) struct Bench<'a, M: DeviceDriver> {
    pub(super) communicator: &'a mut Gpu<M>,
    /// The state that the ranks of this process share.
    pub(super) process_ranks: &'a ProcessRanks<M>,
    pub(super) spec: &'a Spec,
    pub(super) check: Check,
    /// Launches go for this long before the next figure.
    pub(super) warm: Duration,
}

impl<M: DeviceDriver> Bench<'_, M> {
    /// Checks a launch, times more, and checks a last one: with two buffers, or in place.
    pub(super) fn measure<T: Sample>(
        &mut self,
        choice: Choice,
        in_place: bool,
    ) -> Result<FigureTiming> {
        self.communicator.set_choice(Some(choice));
        let (check, rank) = (self.check, self.communicator.rank());
        let (elements, from, to) = match in_place {
            true => check.in_place(rank),
            false => {
                let elements = check.output_elements(rank);
                (elements, 0..0, 0..elements)
            }
        };
        let inputs = if in_place {
            0
        } else {
            check.input_elements(rank)
        };
        let mut input = vec![T::default(); inputs];
        check.fill(rank, 0, &mut input);
        let mut buffer = vec![T::default(); elements];
        check.fill(rank, 0, &mut buffer[from.clone()]);
        let launch = |communicator: &mut Gpu<M>, buffer: &mut [T]| match in_place {
            true => check.launch(communicator, &mut *buffer),
            false => check.launch(communicator, (&input, &mut *buffer)),
        };
        launch(self.communicator, &mut buffer)?;
        let wrong_elements = |buffer: &[T]| check.wrong(rank, &buffer[to.clone()]) as u64;
        let mut wrong = self.spec.check.then(|| wrong_elements(&buffer));
        let (time_us, run) = self.time(choice, &mut |communicator| {
            launch(communicator, &mut buffer)
        })?;
        if let Some(wrong) = &mut wrong {
            // The launches in place have overwritten their own input.
            check::spoil(&mut buffer);
            check.fill(rank, 0, &mut buffer[from]);
            launch(self.communicator, &mut buffer)?;
            *wrong += wrong_elements(&buffer);
        }
        self.timing(time_us, wrong, run)
    }

    /// The timing, with the wrong elements of all ranks if they are processes.
    fn timing(&mut self, time_us: f64, wrong: Option<u64>, timed: u64) -> Result<FigureTiming> {
        // The first one and the last one are not among those that are timed.
        let checked = if wrong.is_some() { 2 } else { 0 };
        let launches = Launches {
            run: timed + checked.max(1),
            checked,
        };
        let wrong = match wrong {
            Some(wrong) if self.spec.processes => {
                Some(together(self.communicator, wrong, Reduction::Sum)?)
            }
            wrong => wrong,
        };
        Ok(FigureTiming {
            time_us,
            latency: None,
            wrong,
            launches,
        })
    }

    fn time(
        &mut self,
        choice: Choice,
        launch: &mut dyn FnMut(&mut Gpu<M>) -> Result<(), executor::Error>,
    ) -> Result<(f64, u64)> {
        let mut run = 0;
        let limits = TimingLimits {
            iterations: self.spec.iterations,
            warmup: self.spec.warmup,
            time_ms: self.spec.time_ms,
            warm: std::mem::take(&mut self.warm),
        };
        let (process_ranks, processes) = (self.process_ranks, self.spec.processes);
        let communicator = &mut *self.communicator;
        process_ranks.set_graph(self.spec.devices.graph);
        let time = repeat(&limits, &mut |times| {
            run += u64::from(times);
            let each = batch(process_ranks, times, &mut || launch(communicator))?;
            if !processes {
                return Ok(each);
            }
            // All must come to the same number of launches.
            let slowest = together(communicator, (each * 1e3) as u64, Reduction::Maximum)?;
            communicator.set_choice(Some(choice));
            Ok(slowest as f64 / 1e3)
        });
        process_ranks.set_graph(0);
        Ok((time?, run))
    }
}

/// Reduces one number over all ranks, by the algorithm that is chosen freely for it.
fn together<M: DeviceDriver>(
    communicator: &mut Gpu<M>,
    number: u64,
    reduction: Reduction,
) -> Result<u64> {
    communicator.set_choice(None);
    let mut numbers = [number];
    communicator.all_reduce(&mut numbers, reduction)?;
    Ok(numbers[0])
}

/// How long something is timed.
#[derive(Debug, Clone, Copy)]
pub struct TimingLimits {
    /// Timed launches; without it, as many as fill the time.
    pub iterations: Option<u32>,
    /// Untimed launches before them.
    pub warmup: u32,
    /// Time to fill, ms.
    pub time_ms: u64,
    /// Time of untimed launches before all of these, so that the GPUs' clocks are up.
    pub warm: Duration,
}

impl Default for TimingLimits {
    fn default() -> Self {
        Self {
            iterations: None,
            warmup: 3,
            time_ms: 20,
            warm: Duration::ZERO,
        }
    }
}

/// Time of a launch by the devices' clocks, µs: the average of many without waiting for the host.
/// All ranks of this process call it together and get the same.
///
/// # Errors
/// A launch failed.
pub fn time<M: DeviceDriver>(
    process_ranks: &ProcessRanks<M>,
    limits: &TimingLimits,
    launch: &mut dyn FnMut() -> Result<(), executor::Error>,
) -> Result<f64> {
    repeat(limits, &mut |times| batch(process_ranks, times, launch))
}

/// Average time of `times` launches in a row, µs.
fn batch<M: DeviceDriver>(
    process_ranks: &ProcessRanks<M>,
    times: u32,
    launch: &mut dyn FnMut() -> Result<(), executor::Error>,
) -> Result<f64> {
    // All ranks set the same number; the launching rank reads it once all have come.
    process_ranks.set_repeat(times);
    let began = Instant::now();
    let launched = launch();
    let took_us = began.elapsed().as_secs_f64() * 1e6;
    // Copies into and out of windows are made once for all repetitions, and belong to each launch.
    let copies_us = process_ranks.copies_us() * f64::from(times);
    process_ranks.set_repeat(1);
    launched?;
    let all_us = match process_ranks.last_time_us() {
        // Devices without a clock are timed by the host's.
        0.0 => took_us,
        device_us => device_us + copies_us,
    };
    Ok(all_us / f64::from(times))
}

/// The median time of a launch over some batches, µs; `batch` times that many launches.
///
/// # Errors
/// Those of `batch`.
pub fn repeat(limits: &TimingLimits, batch: &mut dyn FnMut(u32) -> Result<f64>) -> Result<f64> {
    let (mut warm_us, mut launches) = (0.0, 1);
    while warm_us < limits.warm.as_secs_f64() * 1e6 {
        warm_us += batch(launches)?.max(1.0) * f64::from(launches);
        launches = (2 * launches).min(MOST_LAUNCHES);
    }
    let launches = match limits.iterations {
        Some(iterations) => iterations,
        None => {
            let each = batch(limits.warmup.max(1))?.max(1.0);
            let wanted = limits.time_ms as f64 * 1e3 / BATCHES as f64;
            (wanted / each).clamp(1.0, f64::from(MOST_LAUNCHES)) as u32
        }
    };
    let mut times = [0.0; BATCHES];
    for time in &mut times {
        *time = batch(launches)?;
    }
    times.sort_by(f64::total_cmp);
    Ok(times[BATCHES / 2])
}
