//! The work of each rank: for every size, run and check, then run and time.

use anyhow::Result;
use backend_cpu::Cpu;
use executor::check::{self, ForType, Sample};
use executor::{Choice, Communicator};

use crate::Spec;
use crate::bench::{Bench, MeasuredBuffer};
use crate::choose::choose;
use crate::event::{Event, Observer};
use crate::load::Watch;
use crate::row::{FigureTiming, RunRow};
use crate::spec::request;
use crate::survey;

/// Runs all sizes on one rank, or surveys several collectives. All ranks get the same rows.
pub(crate) fn sweep(
    communicator: &mut Communicator<Cpu>,
    spec: &Spec,
    watch: &mut Watch,
    observer: &mut Observer<'_>,
) -> Result<Vec<RunRow>> {
    let mut run = |spec: &Spec, surveys| {
        let sweep = Sweep {
            communicator,
            spec,
            watch,
            observer,
            surveys,
        };
        check::of_type(spec.element, sweep)
    };
    if spec.survey.is_empty() {
        return run(spec, false);
    }
    let rows = spec.survey.iter();
    let rows = rows.map(|collective| run(&spec.of_collective(*collective), true));
    Ok(rows.collect::<Result<Vec<_>>>()?.concat())
}

struct Sweep<'a, 'b> {
    communicator: &'a mut Communicator<Cpu>,
    spec: &'a Spec,
    watch: &'a mut Watch,
    observer: &'a mut Observer<'b>,
    /// Whether choices are only compared.
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
        let compares = spec.compares || surveys;
        let mut candidates = Vec::new();
        observer(Event::Connected(""));
        for (at, size) in spec.sizes.iter().enumerate() {
            let check = spec.check::<T>(*size);
            let mut request = request::<T>(&check);
            if compares && at == 0 {
                candidates = survey::candidates(&bench, &request);
            }
            let choice = choose(bench.communicator, spec, &request)?;
            observer(Event::Size(*size));
            let shape = bench.communicator.shape();
            let table = bench.communicator.backend().table(&request, shape);
            let bytes = request.bytes(shape.ranks);
            let predicted_us = table.predict(&choice, bytes);
            let mut explained = match spec.explained {
                0 => Vec::new(),
                _ => table.explain(bytes),
            };
            explained.truncate(spec.explained);
            let mut compared = Vec::new();
            if compares {
                let here = candidates.iter().filter(|(_, sizes)| sizes.contains(&at));
                let mut here: Vec<Choice> = here.map(|it| it.0).collect();
                if !here.contains(&choice) {
                    here.push(choice);
                }
                compared = survey::compare(&mut bench, &check, here)?;
            }
            let separate = match surveys {
                true => FigureTiming::default(),
                false => bench.measure(&check, choice, false)?,
            };
            let (mut choice_in_place, mut in_place) = (None, None);
            if spec.in_place {
                request.in_place = true;
                // What does not exist in place is left out, unless it was chosen freely.
                if let Ok(choice) = choose(bench.communicator, spec, &request) {
                    choice_in_place = Some(choice);
                    in_place = Some(bench.measure(&check, choice, true)?);
                }
            }
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
                compared,
                cores: watch.lap(bench.communicator)?,
            };
            observer(Event::Row(&row));
            rows.push(row);
        }
        Ok(rows)
    }
}
