//! Checking and timing one size on GPUs.

use anyhow::Result;
use backend_cuda::Cuda;
use executor::Way;
use executor::check::{Check, Sample};
use kernel_bundle::Fleet;

use super::Gpu;
use crate::run::{Spec, Timing};

/// Most launches in a row.
const MOST_LAUNCHES: u32 = 1 << 14;

/// Batches of which the median is taken.
const BATCHES: usize = 3;

/// One size on one rank.
pub struct Bench<'a> {
    /// The rank.
    pub communicator: &'a mut Gpu,
    /// What all ranks share.
    pub fleet: &'a Fleet<Cuda>,
    /// What is asked for.
    pub spec: &'a Spec,
    /// What is run.
    pub check: Check,
}

impl Bench<'_> {
    /// With two buffers.
    pub fn separate<T: Sample>(&mut self, way: Way) -> Result<Timing> {
        self.communicator.set_way(Some(way));
        let (check, rank) = (self.check, self.communicator.rank());
        let mut input = vec![T::default(); check.input_elements(rank)];
        check.fill(rank, 0, &mut input);
        let mut output = vec![T::default(); check.output_elements(rank)];
        check.launch(self.communicator, &input, &mut output)?;
        let wrong = self.spec.check.then(|| check.wrong(rank, &output) as u64);
        let time_us =
            self.time(&mut |communicator| check.launch(communicator, &input, &mut output))?;
        Ok(Timing { time_us, wrong })
    }

    /// With one buffer.
    pub fn in_place<T: Sample>(&mut self, way: Way) -> Result<Timing> {
        self.communicator.set_way(Some(way));
        let (check, rank) = (self.check, self.communicator.rank());
        let (elements, from, to) = check.in_place(rank);
        let mut buffer = vec![T::default(); elements];
        check.fill(rank, 0, &mut buffer[from]);
        check.launch_in_place(self.communicator, &mut buffer)?;
        let wrong = self
            .spec
            .check
            .then(|| check.wrong(rank, &buffer[to]) as u64);
        let time_us =
            self.time(&mut |communicator| check.launch_in_place(communicator, &mut buffer))?;
        Ok(Timing { time_us, wrong })
    }

    fn time(
        &mut self,
        launch: &mut dyn FnMut(&mut Gpu) -> Result<(), executor::Error>,
    ) -> Result<f64> {
        let timed = Timed {
            iterations: self.spec.iterations,
            warmup: self.spec.warmup,
            time_ms: self.spec.time_ms,
        };
        time(self.fleet, &timed, &mut || launch(self.communicator))
    }
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

/// Time of a launch by the devices' clocks, µs: of many launches in a row, which the host does not wait for. All ranks call
/// this together and get the same.
pub fn time(
    fleet: &Fleet<Cuda>,
    timed: &Timed,
    launch: &mut dyn FnMut() -> Result<(), executor::Error>,
) -> Result<f64> {
    let mut batch = |times: u32| -> Result<f64> {
        // All ranks say the same; whoever launches reads it after all ranks came.
        fleet.set_repeat(times);
        launch()?;
        Ok(fleet.last_time_us() / f64::from(times))
    };
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
    fleet.set_repeat(1);
    times.sort_by(f64::total_cmp);
    Ok(times[BATCHES / 2])
}
