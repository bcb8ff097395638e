//! Checking and timing one algorithm at one size.

use std::ops::{Deref, DerefMut, Range};
use std::time::{Duration, Instant};

use anyhow::Result;
use backend_cpu::Cpu;
use executor::check::{self, Check, Sample};
use executor::{Buffer, Choice, Communicator, Reduction};

use crate::Spec;
use crate::combine::combine;
use crate::latency::{self, Launch, agreed, nanoseconds};
use crate::pace::{self, Part};
use crate::row::{FigureTiming, Latency, Launches};

/// The buffers of a rank and how it times.
pub(crate) struct Bench<'a, T: Sample> {
    pub communicator: &'a mut Communicator<Cpu>,
    pub spec: &'a Spec,
    pub input: MeasuredBuffer<T>,
    pub output: MeasuredBuffer<T>,
}

/// A buffer of the communicator or of the program.
pub(crate) enum MeasuredBuffer<T: Sample> {
    Own(Buffer<T>),
    Caller {
        memory: Vec<T>,
        /// The elements at the begin of a page, as `cargo xtask peers` allocates MPI's buffers.
        within: Range<usize>,
    },
}

/// Alignment of a program's buffers, bytes.
const PAGE_BYTES: usize = 4096;

impl<T: Sample> MeasuredBuffer<T> {
    /// Allocates a buffer.
    ///
    /// # Errors
    /// There is not enough memory.
    pub(crate) fn new(
        communicator: &mut Communicator<Cpu>,
        elements: usize,
        callers: bool,
    ) -> Result<Self, executor::Error> {
        Ok(match callers {
            true => {
                let memory = vec![T::default(); elements + PAGE_BYTES / size_of::<T>()];
                let first = memory.as_ptr().align_offset(PAGE_BYTES);
                let first = first.min(memory.len() - elements);
                Self::Caller {
                    memory,
                    within: first..first + elements,
                }
            }
            false => Self::Own(communicator.buffer(elements)?),
        })
    }
}

impl<T: Sample> Deref for MeasuredBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::Own(buffer) => buffer,
            Self::Caller { memory, within } => &memory[within.clone()],
        }
    }
}

impl<T: Sample> DerefMut for MeasuredBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::Own(buffer) => buffer,
            Self::Caller { memory, within } => &mut memory[within.clone()],
        }
    }
}

impl<T: Sample> Bench<'_, T> {
    /// Checks a launch, times more, and checks the last one: with two buffers, or in place.
    pub(crate) fn measure(
        &mut self,
        check: &Check,
        choice: Choice,
        in_place: bool,
    ) -> Result<FigureTiming> {
        let rank = self.communicator.rank();
        let (elements, from, to) = match in_place {
            true => check.in_place(rank),
            false => {
                let elements = check.output_elements(rank);
                (elements, 0..0, 0..elements)
            }
        };
        let input = &mut self.input[..check.input_elements(rank)];
        if !in_place {
            check.fill(rank, 0, input);
        }
        let buffer = &mut self.output[..elements];
        buffer.fill(T::default());
        check.fill(rank, 0, &mut buffer[from.clone()]);
        let first = |communicator: &mut Communicator<Cpu>, buffer: &mut [T]| match in_place {
            true => check.launch(communicator, &mut *buffer),
            false => check.launch(communicator, (&*input, &mut *buffer)),
        };
        self.communicator.set_choice(Some(choice));
        first(self.communicator, buffer)?;
        let wrong_elements = |buffer: &[T]| match self.spec.check {
            true => check.wrong(rank, &buffer[to.clone()]),
            false => 0,
        };
        let mut wrong = wrong_elements(buffer);
        let reply = reply(self.spec, check);
        let mut run = 1;
        let mut launch = |communicator: &mut Communicator<Cpu>, buffer: &mut [T]| {
            run += 1;
            first(communicator, buffer)?;
            match &reply {
                Some(reply) => reply.launch(communicator, &mut *buffer),
                None => Ok(()),
            }
        };
        let times = time(self.communicator, self.spec, choice, &mut |communicator| {
            launch(communicator, buffer)
        })?;
        if self.spec.check {
            // The launches in place have overwritten their own input.
            check::spoil(buffer);
            check.fill(rank, 0, &mut buffer[from]);
            batch(self.communicator, choice, 1, &mut |communicator| {
                launch(communicator, buffer)
            })?;
            wrong += wrong_elements(buffer);
        }
        self.timing(times, wrong, run)
    }

    /// Time of some launches of a choice in a row on this rank.
    pub(crate) fn turn(
        &mut self,
        check: &Check,
        choice: Choice,
        launches: u64,
    ) -> Result<Duration> {
        let rank = self.communicator.rank();
        let input = &self.input[..check.input_elements(rank)];
        let output = &mut self.output[..check.output_elements(rank)];
        self.communicator.set_choice(Some(choice));
        let reply = reply(self.spec, check);
        let before = Instant::now();
        for _ in 0..launches {
            check.launch(self.communicator, (input, &mut *output))?;
            if let Some(reply) = &reply {
                reply.launch(self.communicator, &mut *output)?;
            }
        }
        let each = if reply.is_some() { 2 } else { 1 };
        Ok(before.elapsed() / each)
    }

    /// The slowest rank's time and everyone's wrong elements.
    fn timing(&mut self, times: Times, wrong: usize, run: u64) -> Result<FigureTiming> {
        let mut wrong = [wrong as u64];
        combine(self.communicator, &mut wrong, Reduction::Sum)?;
        let launches = if self.spec.reply { 2.0 } else { 1.0 };
        Ok(FigureTiming {
            time_us: times.mean_us / launches,
            latency: Some(times.single.divided(launches)),
            wrong: self.spec.check.then_some(wrong[0]),
            launches: Launches {
                run,
                checked: if self.spec.check { 2 } else { 0 },
            },
        })
    }
}

/// The answer to a broadcast, if it gets one.
fn reply(spec: &Spec, check: &Check) -> Option<Check> {
    spec.reply.then(|| Check {
        root: check.ranks - 1,
        ..*check
    })
}

/// The times of launches, on the slowest rank.
struct Times {
    /// The average of launches in a row, µs.
    mean_us: f64,
    /// Of launches timed one by one.
    single: Latency,
}

/// Times a launch.
fn time(
    communicator: &mut Communicator<Cpu>,
    spec: &Spec,
    choice: Choice,
    launch: &mut Launch<'_>,
) -> Result<Times> {
    let mean_us = mean(communicator, spec, choice, launch)?;
    let each = Duration::from_secs_f64(mean_us / 1e6);
    let single = latency::measure(communicator, spec, choice, each, launch)?;
    Ok(Times { mean_us, single })
}

/// Time of a launch in a row of them, on the slowest rank, µs.
fn mean(
    communicator: &mut Communicator<Cpu>,
    spec: &Spec,
    choice: Choice,
    launch: &mut Launch<'_>,
) -> Result<f64> {
    for _ in 0..spec.warmup {
        launch(communicator)?;
    }
    if let Some(iterations) = spec.iterations {
        let taken = batch(communicator, choice, u64::from(iterations), launch)?;
        return Ok(taken.as_secs_f64() * 1e6 / f64::from(iterations));
    }
    let began = Instant::now();
    let mut times = pace::batches(spec.time_ms as f64 * 1e3, &mut |launches| {
        let [taken, spent] = part(communicator, choice, launches, began, launch)?;
        Ok(Part {
            taken_us: taken.as_secs_f64() * 1e6,
            spent_us: spent.as_secs_f64() * 1e6,
        })
    })?;
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Time of `launches` in a row on the slowest rank. All ranks get the same time.
fn batch(
    communicator: &mut Communicator<Cpu>,
    choice: Choice,
    launches: u64,
    launch: &mut Launch<'_>,
) -> Result<Duration> {
    let [taken, _] = part(communicator, choice, launches, Instant::now(), launch)?;
    Ok(taken)
}

/// As [`batch`], and the time since `began`.
fn part(
    communicator: &mut Communicator<Cpu>,
    choice: Choice,
    launches: u64,
    began: Instant,
    launch: &mut Launch<'_>,
) -> Result<[Duration; 2]> {
    agreed(communicator, Some(choice), &mut [0])?;
    let before = Instant::now();
    for _ in 0..launches {
        launch(communicator)?;
    }
    let mut times = [nanoseconds(before.elapsed()), nanoseconds(began.elapsed())];
    agreed(communicator, Some(choice), &mut times)?;
    Ok(times.map(Duration::from_nanos))
}
