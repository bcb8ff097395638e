//! The part of the ranks' cores that other programs took.

use std::time::{Duration, Instant};

use anyhow::Result;
use backend_cpu::Cpu;
use executor::{Communicator, Reduction};
use rustix::time::{ClockId, clock_gettime};

use crate::combine::combine;

/// Least share that is worth a warning: the kernel counts time slices, so a few percent are noise.
const LEAST_SHARE: f64 = 0.1;

/// Least time that is worth a warning, µs: a few ticks of `/proc/stat`.
const LEAST_US: i64 = 50_000;

/// Time of cores, and what other programs took of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CoreTime {
    /// All of it, µs.
    pub all_us: i64,
    /// The time of other programs, µs. It is a difference of counts and may be a little below 0.
    pub others_us: i64,
}

impl CoreTime {
    /// The sum.
    pub fn sum(all: impl Iterator<Item = Self>) -> Self {
        all.fold(Self::default(), |sum, it| Self {
            // Memory that others write may hold any times.
            all_us: sum.all_us.saturating_add(it.all_us),
            others_us: sum.others_us.saturating_add(it.others_us),
        })
    }

    /// The share that other programs took, if it is known.
    pub fn share(&self) -> Option<f64> {
        (self.all_us > 0).then(|| (self.others_us as f64 / self.all_us as f64).clamp(0.0, 1.0))
    }

    /// A warning, if the share is large.
    pub fn warning(&self) -> Option<String> {
        let share = self.share()?;
        (share >= LEAST_SHARE && self.others_us >= LEAST_US).then(|| {
            format!(
                "other programs took {:.0} % of the time of the ranks' cores; the times are those of a busy machine",
                share * 100.0
            )
        })
    }
}

/// Counts the time of cores on one rank.
#[derive(Debug)]
pub(crate) struct Watch {
    /// The cores of this machine; none on all its ranks but one.
    cores: Vec<usize>,
    /// How many of them its ranks do not need.
    spare: usize,
    /// Whether this rank counts the time of its process.
    process: bool,
    last: LoadReading,
}

#[derive(Debug, Clone, Copy)]
struct LoadReading {
    at: Instant,
    /// How long the cores were not idle, together.
    busy: Duration,
    own: Duration,
}

impl Watch {
    /// A rank that counts nothing, because another one of its process does.
    pub(crate) fn nothing() -> Self {
        Self::new(Vec::new(), 0, false)
    }

    /// A rank that counts its process only, because another one of its machine counts the cores.
    pub(crate) fn process() -> Self {
        Self::new(Vec::new(), 0, true)
    }

    /// A rank that counts its process, and the cores that all ranks of its machine use.
    pub(crate) fn cores(cores: &[usize], ranks: u32, bound: bool) -> Self {
        let ranks = ranks as usize;
        let used = match bound && ranks < cores.len() {
            true => &cores[..ranks],
            false => cores,
        };
        Self::new(used.to_vec(), used.len().saturating_sub(ranks), true)
    }

    fn new(cores: Vec<usize>, spare: usize, process: bool) -> Self {
        let last = LoadReading::now(&cores);
        Self {
            cores,
            spare,
            process,
            last,
        }
    }

    /// The core time of all ranks since the last call. All ranks call it together.
    pub(crate) fn lap(&mut self, communicator: &mut Communicator<Cpu>) -> Result<CoreTime> {
        let now = LoadReading::now(&self.cores);
        let last = std::mem::replace(&mut self.last, now);
        let us = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let elapsed = us(now.at - last.at);
        let own = match self.process {
            true => us(now.own.saturating_sub(last.own)),
            false => 0,
        };
        let busy = us(now.busy.saturating_sub(last.busy));
        let used = (self.cores.len() - self.spare) as i64;
        let mut times = [elapsed * used, busy - own - elapsed * self.spare as i64];
        combine(communicator, &mut times, Reduction::Sum)?;
        let [all_us, others_us] = times;
        Ok(CoreTime { all_us, others_us })
    }
}

impl LoadReading {
    fn now(cores: &[usize]) -> Self {
        let own = clock_gettime(ClockId::ProcessCPUTime);
        Self {
            at: Instant::now(),
            busy: busy(cores),
            own: Duration::try_from(own).unwrap_or_default(),
        }
    }
}

/// Busy time of these cores since the machine started; 0 without `/proc/stat`.
fn busy(cores: &[usize]) -> Duration {
    if cores.is_empty() {
        return Duration::ZERO;
    }
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks: u64 = text
        .lines()
        .filter_map(|line| core_ticks(line, cores))
        .sum();
    let each = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_nanos(ticks.saturating_mul(1_000_000_000 / each))
}

/// Busy ticks of a core, from `cpuN user nice system idle iowait irq softirq steal …`.
fn core_ticks(line: &str, cores: &[usize]) -> Option<u64> {
    let (name, numbers) = line.split_once(' ')?;
    let core: usize = name.strip_prefix("cpu")?.parse().ok()?;
    let numbers: Result<Vec<u64>, _> = numbers.split_whitespace().map(str::parse).collect();
    match numbers.ok()?[..] {
        [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] if cores.contains(&core) => {
            Some(user + nice + system + irq + softirq + steal)
        }
        _ => None,
    }
}
