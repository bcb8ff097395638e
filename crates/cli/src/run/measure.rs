//! What each rank does: for every size, run and check, then run and time.

use anyhow::Result;
use backend_cpu::{Cpu, Profile};
use executor::check::{self, ForType, Sample};
use executor::{Choice, Communicator};
use serde::Serialize;

use super::Spec;
use super::bench::Bench;
use super::choose::choose;
use super::latency::Latency;
use super::load::{CoreTime, Watch};
use super::spec::request;
use super::survey::Survey;

/// What was measured of one placement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct FigureTiming {
    /// Time of a launch on the slowest rank, µs: the median of batches; in a survey, the least.
    pub time_us: f64,
    /// Of launches timed one by one, where they were.
    pub latency: Option<Latency>,
    /// Wrong elements on all ranks; none if they were not checked.
    pub wrong: Option<u64>,
    pub launches: Launches,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Launches {
    pub run: u64,
    /// Of how many every element was checked: the first, and the last, which is timed alone.
    pub checked: u64,
}

#[derive(Debug, Clone)]
pub struct RunRow {
    pub bytes: u64,
    pub count: u64,
    pub choice: Choice,
    pub choice_in_place: Option<Choice>,
    pub separate: FigureTiming,
    pub in_place: Option<FigureTiming>,
    /// Time that the cost profile predicts, µs.
    pub predicted_us: Option<f64>,
    /// Time of the ranks' cores, and what other programs took of it.
    pub cores: CoreTime,
}

impl RunRow {
    /// With two buffers, and in place.
    fn both(&self) -> impl Iterator<Item = FigureTiming> {
        [Some(self.separate), self.in_place].into_iter().flatten()
    }

    pub fn wrong(&self) -> u64 {
        self.both().filter_map(|it| it.wrong).sum()
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

/// Runs all sizes on one rank. All ranks get the same rows.
pub fn sweep(
    communicator: &mut Communicator<Cpu>,
    spec: &Spec,
    profile: &Profile,
    watch: &mut Watch,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<RunRow>> {
    check::of_type(
        spec.element()?,
        Sweep {
            communicator,
            spec,
            profile,
            watch,
            progress,
        },
    )
}

struct Sweep<'a> {
    communicator: &'a mut Communicator<Cpu>,
    spec: &'a Spec,
    profile: &'a Profile,
    watch: &'a mut Watch,
    progress: &'a mut dyn FnMut(u64),
}

impl ForType for Sweep<'_> {
    type Output = Result<Vec<RunRow>>;

    fn run<T: Sample>(self) -> Self::Output {
        let Self {
            communicator,
            spec,
            profile,
            watch,
            progress,
        } = self;
        let rank = communicator.rank();
        let largest = spec.check::<T>(spec.sizes.iter().copied().max().unwrap_or(1))?;
        let most_output = largest.output_elements(rank).max(largest.in_place(rank).0);
        let mut bench = Bench {
            input: communicator.buffer::<T>(largest.input_elements(rank))?,
            output: communicator.buffer::<T>(most_output)?,
            communicator,
            spec,
        };
        let mut rows = Vec::with_capacity(spec.sizes.len());
        let mut survey = Survey::default();
        for bytes in &spec.sizes {
            progress(*bytes);
            let check = spec.check::<T>(*bytes)?;
            let mut request = request::<T>(&check);
            if spec.survey {
                rows.extend(survey.size(&mut bench, &request, &check)?);
                continue;
            }
            let choice = choose(bench.communicator, spec, profile, &request)?;
            let predicted_us = profile.predict(&request, &choice, bench.communicator.shape()?);
            let separate = bench.measure(&check, choice, false)?;
            let (mut choice_in_place, mut in_place) = (None, None);
            if spec.in_place {
                request.in_place = true;
                // What does not exist in place is left out, unless it was chosen freely.
                if let Ok(choice) = choose(bench.communicator, spec, profile, &request) {
                    choice_in_place = Some(choice);
                    in_place = Some(bench.measure(&check, choice, true)?);
                }
            }
            rows.push(RunRow {
                bytes: request.bytes(spec.ranks),
                count: request.count,
                choice,
                choice_in_place,
                separate,
                in_place,
                predicted_us,
                cores: watch.lap(bench.communicator)?,
            });
        }
        Ok(rows)
    }
}
