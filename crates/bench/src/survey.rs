//! Measures every choice for a collective, for a cost profile.

use anyhow::Result;
use backend_cpu::choose;
use executor::check::{Check, Sample};
use executor::{Choice, Request};

use crate::bench::Bench;
use crate::load::CoreTime;
use crate::row::RunRow;

/// Size from which a slow choice does not become the fastest again, bytes.
const LARGE: u64 = 32 << 10;

/// Time relative to the fastest choice beyond which larger sizes are skipped.
const FAR_BEHIND: f64 = 4.0;

/// The same for small sizes.
const HOPELESS: f64 = 16.0;

/// The choices that are still worth measuring.
#[derive(Default)]
pub(crate) struct Survey {
    choices: Option<Vec<Choice>>,
}

impl Survey {
    pub(crate) fn size<T: Sample>(
        &mut self,
        bench: &mut Bench<'_, T>,
        request: &Request,
        check: &Check,
    ) -> Result<Vec<RunRow>> {
        let ranks = bench.spec.ranks;
        let choices = match self.choices.take() {
            Some(choices) => choices,
            None => {
                let shape = bench.communicator.shape();
                let mut all = choose::choices(request, shape);
                all.retain(|choice| choose::pays(choice, shape));
                all
            }
        };
        let mut rows = Vec::with_capacity(choices.len());
        for choice in choices {
            rows.push(RunRow {
                bytes: request.bytes(ranks),
                count: request.count,
                choice,
                choice_in_place: None,
                separate: bench.measure(check, choice, false)?,
                in_place: None,
                predicted_us: None,
                explained: Vec::new(),
                cores: CoreTime::default(),
            });
        }
        // All ranks have the slowest rank's times, so all drop the same.
        let least = rows
            .iter()
            .map(|row: &RunRow| row.separate.time_us)
            .fold(f64::INFINITY, f64::min);
        let behind = match request.bytes(ranks) < LARGE {
            true => HOPELESS,
            false => FAR_BEHIND,
        };
        let keeps = |row: &&RunRow| row.separate.time_us <= behind * least;
        self.choices = Some(rows.iter().filter(keeps).map(|row| row.choice).collect());
        Ok(rows)
    }
}
