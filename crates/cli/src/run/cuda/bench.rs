//! Checking and timing one size on GPUs.

use std::time::Instant;

use anyhow::Result;
use device_runtime::{DeviceDriver, ProcessRanks};
use executor::check::{self, Check, Sample};
use executor::{Choice, Reduction};

use super::Gpu;
use crate::run::{Launches, Spec, Timing};

/// Most launches in a row.
const MOST_LAUNCHES: u32 = 1 << 14;

/// Batches of which the median is taken.
const BATCHES: usize = 3;

/// One size on one rank.
pub struct Bench<'a, M: DeviceDriver> {
    /// The rank.
    pub communicator: &'a mut Gpu<M>,
    /// What the ranks of this process share.
    pub process_ranks: &'a ProcessRanks<M>,
    /// What is asked for.
    pub spec: &'a Spec,
    /// What is run.
    pub check: Check,
}

impl<M: DeviceDriver> Bench<'_, M> {
    /// With two buffers.
    pub fn separate<T: Sample>(&mut self, way: Choice) -> Result<Timing> {
        self.communicator.set_way(Some(way));
        let (check, rank) = (self.check, self.communicator.rank());
        let mut input = vec![T::default(); check.input_elements(rank)];
        check.fill(rank, 0, &mut input);
        let mut output = vec![T::default(); check.output_elements(rank)];
        check.launch(self.communicator, &input, &mut output)?;
        let mut wrong = self.spec.check.then(|| check.wrong(rank, &output) as u64);
        let (time_us, run) = self.time(way, &mut |communicator| {
            check.launch(communicator, &input, &mut output)
        })?;
        if let Some(wrong) = &mut wrong {
            check::spoil(&mut output);
            check.launch(self.communicator, &input, &mut output)?;
            *wrong += check.wrong(rank, &output) as u64;
        }
        self.timing(time_us, wrong, run)
    }

    /// With one buffer.
    pub fn in_place<T: Sample>(&mut self, way: Choice) -> Result<Timing> {
        self.communicator.set_way(Some(way));
        let (check, rank) = (self.check, self.communicator.rank());
        let (elements, from, to) = check.in_place(rank);
        let mut buffer = vec![T::default(); elements];
        check.fill(rank, 0, &mut buffer[from.clone()]);
        check.launch_in_place(self.communicator, &mut buffer)?;
        let mut wrong = self
            .spec
            .check
            .then(|| check.wrong(rank, &buffer[to.clone()]) as u64);
        let (time_us, run) = self.time(way, &mut |communicator| {
            check.launch_in_place(communicator, &mut buffer)
        })?;
        if let Some(wrong) = &mut wrong {
            // What was launched again and again has overwritten its own input.
            check::spoil(&mut buffer);
            check.fill(rank, 0, &mut buffer[from]);
            check.launch_in_place(self.communicator, &mut buffer)?;
            *wrong += check.wrong(rank, &buffer[to]) as u64;
        }
        self.timing(time_us, wrong, run)
    }

    /// A time of some launches, and everyone's wrong elements; among processes, for each tells of its own only.
    fn timing(&mut self, time_us: f64, wrong: Option<u64>, timed: u64) -> Result<Timing> {
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
        Ok(Timing {
            time_us,
            latency: None,
            wrong,
            launches,
        })
    }

    fn time(
        &mut self,
        way: Choice,
        launch: &mut dyn FnMut(&mut Gpu<M>) -> Result<(), executor::Error>,
    ) -> Result<(f64, u64)> {
        let mut run = 0;
        let timed = Timed {
            iterations: self.spec.iterations,
            warmup: self.spec.warmup,
            time_ms: self.spec.time_ms,
        };
        let (process_ranks, processes) = (self.process_ranks, self.spec.processes);
        let communicator = &mut *self.communicator;
        process_ranks.set_graph(self.spec.devices.graph);
        let time = repeat(&timed, &mut |times| {
            run += u64::from(times);
            let each = batch(process_ranks, times, &mut || launch(communicator))?;
            if !processes {
                return Ok(each);
            }
            // All must come to the same number of launches.
            let slowest = together(communicator, (each * 1e3) as u64, Reduction::Maximum)?;
            communicator.set_way(Some(way));
            Ok(slowest as f64 / 1e3)
        });
        process_ranks.set_graph(0);
        Ok((time?, run))
    }
}

/// One number of all ranks, by the way that is chosen for it.
fn together<M: DeviceDriver>(
    communicator: &mut Gpu<M>,
    number: u64,
    reduction: Reduction,
) -> Result<u64> {
    communicator.set_way(None);
    let mut numbers = [number];
    communicator.all_reduce_in_place(&mut numbers, reduction)?;
    Ok(numbers[0])
}

/// How long something is timed.
#[derive(Debug, Clone, Copy)]
pub struct Timed {
    /// So many launches; as many as fill the time if not said.
    pub iterations: Option<u32>,
    /// Launches before.
    pub warmup: u32,
    /// The time, ms.
    pub time_ms: u64,
}

impl Default for Timed {
    fn default() -> Self {
        Self {
            iterations: None,
            warmup: 3,
            time_ms: 20,
        }
    }
}

/// Time of a launch by the devices' clocks, µs: of many launches in a row, which the host does not wait for. All ranks of
/// this process call it together and get the same.
pub fn time<M: DeviceDriver>(
    process_ranks: &ProcessRanks<M>,
    timed: &Timed,
    launch: &mut dyn FnMut() -> Result<(), executor::Error>,
) -> Result<f64> {
    repeat(timed, &mut |times| batch(process_ranks, times, launch))
}

/// Time of each of so many launches in a row, µs.
fn batch<M: DeviceDriver>(
    process_ranks: &ProcessRanks<M>,
    times: u32,
    launch: &mut dyn FnMut() -> Result<(), executor::Error>,
) -> Result<f64> {
    // All ranks say the same; whoever launches reads it after all ranks came.
    process_ranks.set_repeat(times);
    let began = Instant::now();
    let launched = launch();
    let took_us = began.elapsed().as_secs_f64() * 1e6;
    process_ranks.set_repeat(1);
    launched?;
    let all_us = match process_ranks.last_time_us() {
        // What has no clock of its own is timed by the host's.
        0.0 => took_us,
        device_us => device_us,
    };
    Ok(all_us / f64::from(times))
}

/// The median of some batches, each of which answers the time of one of so many launches.
fn repeat(timed: &Timed, batch: &mut dyn FnMut(u32) -> Result<f64>) -> Result<f64> {
    let launches = match timed.iterations {
        Some(iterations) => iterations,
        None => {
            let each = batch(timed.warmup.max(1))?.max(1.0);
            let wanted = timed.time_ms as f64 * 1e3 / BATCHES as f64;
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
