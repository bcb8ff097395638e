//! The work of each rank: for every size, run and check, then run and time.

use anyhow::Result;
use backend_cpu::{Cpu, Profile};
use executor::Communicator;
use executor::check::{self, ForType, Sample};

use crate::Spec;
use crate::bench::{Bench, MeasuredBuffer};
use crate::choose::choose;
use crate::event::{Event, Observer};
use crate::load::Watch;
use crate::row::RunRow;
use crate::spec::request;
use crate::survey::Survey;

/// Runs all sizes on one rank. All ranks get the same rows.
pub(crate) fn sweep(
    communicator: &mut Communicator<Cpu>,
    spec: &Spec,
    profile: &Profile,
    watch: &mut Watch,
    observer: &mut Observer<'_>,
) -> Result<Vec<RunRow>> {
    check::of_type(
        spec.element,
        Sweep {
            communicator,
            spec,
            profile,
            watch,
            observer,
        },
    )
}

struct Sweep<'a> {
    communicator: &'a mut Communicator<Cpu>,
    spec: &'a Spec,
    profile: &'a Profile,
    watch: &'a mut Watch,
    observer: &'a mut Observer<'a>,
}

impl ForType for Sweep<'_> {
    type Output = Result<Vec<RunRow>>;

    fn run<T: Sample>(self) -> Self::Output {
        let Self {
            communicator,
            spec,
            profile,
            watch,
            observer,
        } = self;
        let rank = communicator.rank();
        let largest = spec.check::<T>(spec.sizes.iter().copied().max().unwrap_or(1));
        let most_output = largest.output_elements(rank).max(largest.in_place(rank).0);
        let mut allocate =
            |elements| MeasuredBuffer::<T>::new(communicator, elements, spec.callers_memory);
        let mut bench = Bench {
            input: allocate(largest.input_elements(rank))?,
            output: allocate(most_output)?,
            communicator,
            spec,
        };
        let mut rows = Vec::with_capacity(spec.sizes.len());
        let mut survey = Survey::default();
        observer(Event::Connected(""));
        for bytes in &spec.sizes {
            let check = spec.check::<T>(*bytes);
            let mut request = request::<T>(&check);
            if spec.survey {
                observer(Event::Size(*bytes));
                rows.extend(survey.size(&mut bench, &request, &check)?);
                continue;
            }
            let choice = choose(bench.communicator, spec, profile, &request)?;
            observer(Event::Size(*bytes));
            let shape = bench.communicator.shape();
            let predicted_us = profile.predict(&request, &choice, shape);
            let mut explained = match spec.explained {
                0 => Vec::new(),
                _ => profile.explain(&request, shape),
            };
            explained.truncate(spec.explained);
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
            let row = RunRow {
                bytes: request.bytes(spec.ranks),
                count: request.count,
                choice,
                choice_in_place,
                separate,
                in_place,
                predicted_us,
                explained,
                cores: watch.lap(bench.communicator)?,
            };
            observer(Event::Row(&row));
            rows.push(row);
        }
        Ok(rows)
    }
}
