//! The work of each rank: for every size, run and check, then run and time.

use anyhow::Result;
use backend_cpu::Cpu;
use executor::Communicator;
use executor::check::{self, ForType, Sample};

use crate::Spec;
use crate::bench::{Bench, MeasuredBuffer};
use crate::choose::choose;
use crate::event::{Event, Observer};
use crate::load::Watch;
use crate::row::{BestChoice, RunRow};
use crate::spec::request;
use crate::survey::Survey;

/// Runs all sizes on one rank, or surveys several collectives. All ranks get the same rows.
pub(crate) fn sweep(
    communicator: &mut Communicator<Cpu>,
    spec: &Spec,
    watch: &mut Watch,
    observer: &mut Observer<'_>,
) -> Result<Vec<RunRow>> {
    if spec.survey.is_empty() {
        return check::of_type(
            spec.element,
            Sweep {
                communicator,
                spec,
                watch,
                observer,
                surveys: false,
            },
        );
    }
    let mut rows = Vec::new();
    for collective in &spec.survey {
        let surveyed = Sweep {
            communicator,
            spec: &spec.of_collective(*collective),
            watch,
            observer,
            surveys: true,
        };
        rows.extend(check::of_type(spec.element, surveyed)?);
    }
    Ok(rows)
}

struct Sweep<'a, 'b> {
    communicator: &'a mut Communicator<Cpu>,
    spec: &'a Spec,
    watch: &'a mut Watch,
    observer: &'a mut Observer<'b>,
    /// Whether the choices are measured beside each other, and nothing else.
    surveys: bool,
}

impl ForType for Sweep<'_, '_> {
    type Output = Result<Vec<RunRow>>;

    fn run<T: Sample>(self) -> Self::Output {
        let Self {
            communicator,
            spec,
            watch,
            observer,
            surveys,
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
        let time_us = spec.time_ms as f64 * 1e3;
        observer(Event::Connected(""));
        for (at, bytes) in spec.sizes.iter().enumerate() {
            let check = spec.check::<T>(*bytes);
            let mut request = request::<T>(&check);
            if surveys {
                observer(Event::Surveyed(spec.collective, *bytes));
                let within = (spec.compared.unwrap_or(f64::INFINITY), time_us);
                rows.extend(survey.size(&mut bench, at, within, None)?);
                continue;
            }
            let choice = choose(bench.communicator, spec, &request)?;
            observer(Event::Size(*bytes));
            let shape = bench.communicator.shape();
            let table = bench.communicator.backend().table(&request, shape);
            let bytes = request.bytes(shape.ranks);
            let predicted_us = table.predict(&choice, bytes);
            let mut explained = match spec.explained {
                0 => Vec::new(),
                _ => table.explain(bytes),
            };
            explained.truncate(spec.explained);
            let separate = bench.measure(&check, choice, false)?;
            let (mut choice_in_place, mut in_place) = (None, None);
            if spec.in_place {
                request.in_place = true;
                // What does not exist in place is left out, unless it was chosen freely.
                if let Ok(choice) = choose(bench.communicator, spec, &request) {
                    choice_in_place = Some(choice);
                    in_place = Some(bench.measure(&check, choice, true)?);
                }
            }
            let compared = match spec.compared {
                Some(within) => survey.size(&mut bench, at, (within, time_us), Some(choice))?,
                None => Vec::new(),
            };
            let row = RunRow {
                collective: spec.collective,
                bytes: request.bytes(spec.ranks),
                count: request.count,
                choice,
                choice_in_place,
                separate,
                in_place,
                predicted_us,
                explained,
                best: BestChoice::of(&compared, choice),
                cores: watch.lap(bench.communicator)?,
            };
            observer(Event::Row(&row));
            rows.push(row);
        }
        Ok(rows)
    }
}
