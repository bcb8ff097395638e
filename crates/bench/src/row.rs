//! The measurement of one size.

use crate::JsonSchema;
use backend_cpu::choose::ExplainedChoice;
use executor::Choice;
use program::Collective;
use serde::Serialize;

use crate::load::CoreTime;

/// The measurement of one placement.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FigureTiming {
    /// Time of a launch on the slowest rank, µs: the median of batches.
    pub time_us: f64,
    /// Of launches timed one by one, where they were.
    pub latency: Option<Latency>,
    /// Wrong elements on all ranks; none if they were not checked.
    pub wrong: Option<u64>,
    /// Launches of it.
    pub launches: Launches,
}

/// Launches of a figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Launches {
    /// All of them.
    pub run: u64,
    /// Of how many every element was checked: the first, and the last, which is timed alone.
    pub checked: u64,
}

/// The measurement of one size.
#[derive(Debug, Clone)]
pub struct RunRow {
    /// The collective.
    pub collective: Collective,
    /// The message, bytes, as nccl-tests counts it.
    pub bytes: u64,
    /// Elements of a block.
    pub count: u64,
    /// The choice with two buffers.
    pub choice: Choice,
    /// The choice in place, if that was run.
    pub choice_in_place: Option<Choice>,
    /// Figures with two buffers.
    pub separate: FigureTiming,
    /// Figures in place, if that was run.
    pub in_place: Option<FigureTiming>,
    /// Time that the cost profile predicts, µs.
    pub predicted_us: Option<f64>,
    /// The choices with the least expected times, if they are wanted.
    pub explained: Vec<ExplainedChoice>,
    /// Choices that were measured in turns, with the time of a launch of each on the slowest rank,
    /// µs, the fastest first.
    pub compared: Vec<(Choice, f64)>,
    /// Time of the ranks' cores, and what other programs took of it.
    pub cores: CoreTime,
}

impl RunRow {
    /// With two buffers, and in place.
    fn both(&self) -> impl Iterator<Item = FigureTiming> {
        [Some(self.separate), self.in_place].into_iter().flatten()
    }

    /// The fastest of the compared choices, its time, µs, and the time of the taken one by it.
    pub fn best(&self) -> Option<(Choice, f64, f64)> {
        let (best, time_us) = *self.compared.first()?;
        let taken = self.compared.iter().find(|it| it.0 == self.choice)?;
        Some((best, time_us, taken.1 / time_us))
    }

    /// Wrong elements of both placements.
    pub fn wrong(&self) -> u64 {
        let wrong = self.both().filter_map(|it| it.wrong);
        // Memory that others write may hold any numbers.
        wrong.fold(0, u64::saturating_add)
    }

    /// Launches, with two buffers and in place.
    pub fn launches(&self) -> Launches {
        let sum = |of: fn(Launches) -> u64| self.both().map(|it| of(it.launches)).sum();
        Launches {
            run: sum(|it| it.run),
            checked: sum(|it| it.checked),
        }
    }
}

/// Times of single launches, each on the slowest rank, µs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latency {
    /// The time that half of the launches do not exceed.
    pub p50_us: f64,
    /// The time that 99 % of the launches do not exceed; the maximum of fewer than 100.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
    /// Launches that were timed.
    pub launches: u64,
}

impl Latency {
    /// The percentiles of these times, ns.
    pub(crate) fn of(mut times: Vec<u64>) -> Self {
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
    pub(crate) fn divided(self, by: f64) -> Self {
        Self {
            p50_us: self.p50_us / by,
            p99_us: self.p99_us / by,
            max_us: self.max_us / by,
            ..self
        }
    }
}
