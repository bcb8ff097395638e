//! Checking and timing one way at one size.

use std::time::{Duration, Instant};

use anyhow::Result;
use backend_cpu::Cpu;
use executor::check::{self, Check, Sample};
use executor::{Buffer, Choice, Communicator, Reduction};

use super::Spec;
use super::latency::{self, Latency};
use super::measure::{Launches, Timing};

/// Most launches in a row, so that a clock that is too coarse ends too.
const MOST_LAUNCHES: u64 = 1 << 20;

/// Batches of which the median is taken.
const BATCHES: usize = 5;

/// The buffers of a rank and how it times.
pub struct Bench<'a, T: Sample> {
    pub communicator: &'a mut Communicator<Cpu>,
    pub spec: &'a Spec,
    pub input: Buffer<T>,
    pub output: Buffer<T>,
}

impl<T: Sample> Bench<'_, T> {
    /// With two buffers: checks a launch, times more, and checks the last one.
    pub fn separate(&mut self, check: &Check, way: Choice) -> Result<Timing> {
        let rank = self.communicator.rank();
        let input = &mut self.input[..check.input_elements(rank)];
        check.fill(rank, 0, input);
        let output = &mut self.output[..check.output_elements(rank)];
        output.fill(T::default());
        self.communicator.set_choice(Some(way));
        check.launch(self.communicator, (&*input, &mut *output))?;
        let mut wrong = if self.spec.check {
            check.wrong(rank, output)
        } else {
            0
        };
        let reply = self.spec.reply.then(|| Check {
            root: check.ranks - 1,
            ..*check
        });
        let mut run = 1;
        let mut launch = |communicator: &mut Communicator<Cpu>, output: &mut [T]| {
            run += 1;
            check.launch(communicator, (&*input, &mut *output))?;
            match &reply {
                Some(reply) => reply.launch(communicator, &mut *output),
                None => Ok(()),
            }
        };
        let times = time(self.communicator, self.spec, way, &mut |communicator| {
            launch(communicator, output)
        })?;
        if self.spec.check {
            check::spoil(output);
            batch(self.communicator, way, 1, &mut |communicator| {
                launch(communicator, output)
            })?;
            wrong += check.wrong(rank, output);
        }
        self.timing(times, wrong, run)
    }

    /// As [`Self::separate`], in place.
    pub fn in_place(&mut self, check: &Check, way: Choice) -> Result<Timing> {
        let rank = self.communicator.rank();
        let (elements, from, to) = check.in_place(rank);
        let buffer = &mut self.output[..elements];
        buffer.fill(T::default());
        check.fill(rank, 0, &mut buffer[from.clone()]);
        self.communicator.set_choice(Some(way));
        check.launch(self.communicator, &mut *buffer)?;
        let mut wrong = if self.spec.check {
            check.wrong(rank, &buffer[to.clone()])
        } else {
            0
        };
        let last = Check {
            root: check.ranks - 1,
            ..*check
        };
        let reply = self.spec.reply;
        let mut run = 1;
        let mut launch = |communicator: &mut Communicator<Cpu>, buffer: &mut [T]| {
            run += 1;
            check.launch(communicator, &mut *buffer)?;
            if reply {
                last.launch(communicator, &mut *buffer)?;
            }
            Ok(())
        };
        let times = time(self.communicator, self.spec, way, &mut |communicator| {
            launch(communicator, buffer)
        })?;
        if self.spec.check {
            // What was launched again and again has overwritten its own input.
            check::spoil(buffer);
            check.fill(rank, 0, &mut buffer[from]);
            batch(self.communicator, way, 1, &mut |communicator| {
                launch(communicator, buffer)
            })?;
            wrong += check.wrong(rank, &buffer[to]);
        }
        self.timing(times, wrong, run)
    }

    /// The slowest rank's time and everyone's wrong elements.
    fn timing(&mut self, times: Times, wrong: usize, run: u64) -> Result<Timing> {
        self.communicator.set_choice(None);
        let mut wrong = [wrong as u64];
        self.communicator.all_reduce(&mut wrong, Reduction::Sum)?;
        let launches = if self.spec.reply { 2.0 } else { 1.0 };
        Ok(Timing {
            time_us: times.mean_us / launches,
            latency: times.single.map(|it| it.divided(launches)),
            wrong: self.spec.check.then_some(wrong[0]),
            launches: Launches {
                run,
                checked: if self.spec.check { 2 } else { 0 },
            },
        })
    }
}

/// A launch, or two that are timed as one.
pub type Launch<'a> = dyn FnMut(&mut Communicator<Cpu>) -> Result<(), executor::Error> + 'a;

/// What launches take, on the slowest rank.
struct Times {
    /// The average of launches in a row, µs.
    mean_us: f64,
    /// Of launches timed one by one; not measured in a survey.
    single: Option<Latency>,
}

/// What a launch takes.
fn time(
    communicator: &mut Communicator<Cpu>,
    spec: &Spec,
    way: Choice,
    launch: &mut Launch<'_>,
) -> Result<Times> {
    let mean_us = mean(communicator, spec, way, launch)?;
    let each = Duration::from_secs_f64(mean_us / 1e6);
    let single = match spec.survey {
        true => None,
        false => Some(latency::measure(communicator, spec, way, each, launch)?),
    };
    Ok(Times { mean_us, single })
}

/// Time of a launch in a row of them, on the slowest rank, µs.
fn mean(
    communicator: &mut Communicator<Cpu>,
    spec: &Spec,
    way: Choice,
    launch: &mut Launch<'_>,
) -> Result<f64> {
    for _ in 0..spec.warmup {
        launch(communicator)?;
    }
    if let Some(iterations) = spec.iterations {
        let taken = batch(communicator, way, u64::from(iterations), launch)?;
        return Ok(taken.as_secs_f64() * 1e6 / f64::from(iterations));
    }
    // Growing batches until one takes a tenth of the time, then some that fill it together.
    let wanted = Duration::from_millis(spec.time_ms);
    let mut launches = 1_u64;
    let mut taken = batch(communicator, way, launches, launch)?;
    while taken < wanted / 10 && launches < MOST_LAUNCHES {
        // Twice as many, or so many more that half of it suffices.
        let missing = wanted.as_nanos() / 20 / taken.as_nanos().max(1);
        let factor = u64::try_from(missing).unwrap_or(2).clamp(2, 64);
        launches = (launches * factor).min(MOST_LAUNCHES);
        taken = batch(communicator, way, launches, launch)?;
    }
    let each = taken.as_secs_f64() / launches as f64;
    let fill = (wanted.as_secs_f64() / BATCHES as f64 / each) as u64;
    let fill = fill.clamp(1, MOST_LAUNCHES);
    // A survey compares ways that are measured one after the other, so what disturbs one of them must not count.
    if spec.survey {
        let mut least = f64::INFINITY;
        for _ in 0..BATCHES {
            let taken = batch(communicator, way, fill, launch)?;
            least = least.min(taken.as_secs_f64() * 1e6 / fill as f64);
        }
        return Ok(least);
    }
    let mut batches = [0.0; BATCHES];
    for time in &mut batches {
        let taken = batch(communicator, way, fill, launch)?;
        *time = taken.as_secs_f64() * 1e6 / fill as f64;
    }
    batches.sort_by(f64::total_cmp);
    Ok(batches[BATCHES / 2])
}

/// So many launches in a row, on the slowest rank. All ranks get the same time.
fn batch(
    communicator: &mut Communicator<Cpu>,
    way: Choice,
    launches: u64,
    launch: &mut Launch<'_>,
) -> Result<Duration> {
    agreed(communicator, way, &mut [0])?;
    let began = Instant::now();
    for _ in 0..launches {
        launch(communicator)?;
    }
    let mut taken = [u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)];
    agreed(communicator, way, &mut taken)?;
    Ok(Duration::from_nanos(taken[0]))
}

/// Replaces each number by the largest of all ranks'. The ranks leave it together, with `way` set again.
pub fn agreed(
    communicator: &mut Communicator<Cpu>,
    way: Choice,
    numbers: &mut [u64],
) -> Result<()> {
    communicator.set_choice(None);
    communicator.all_reduce(numbers, Reduction::Maximum)?;
    communicator.set_choice(Some(way));
    Ok(())
}
