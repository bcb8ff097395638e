//! Measuring every way of a collective, for a cost profile.

use anyhow::Result;
use backend_cpu::profile;
use executor::check::{Check, Sample};
use executor::{Choice, Request};

use super::bench::Bench;
use super::load::CoreTime;
use super::measure::Row;

/// Messages from which on a way that is far behind does not come back, bytes.
const LARGE: u64 = 32 << 10;

/// How many times as long as the fastest a way may take to be measured at larger sizes too.
const FAR_BEHIND: f64 = 4.0;

/// Measures every way instead of the chosen one, and leaves out those that have fallen far behind.
#[derive(Default)]
pub struct Survey {
    ways: Option<Vec<Choice>>,
}

impl Survey {
    /// Measures every way at one size.
    pub fn size<T: Sample>(
        &mut self,
        bench: &mut Bench<'_, T>,
        request: &Request,
        check: &Check,
    ) -> Result<Vec<Row>> {
        let ranks = bench.spec.ranks;
        let ways = self
            .ways
            .take()
            .unwrap_or_else(|| profile::choices(request, ranks));
        let mut rows = Vec::with_capacity(ways.len());
        for way in ways {
            rows.push(Row {
                bytes: request.bytes(ranks),
                count: request.count,
                way,
                way_in_place: None,
                separate: bench.separate(check, way)?,
                in_place: None,
                predicted_us: None,
                cores: CoreTime::default(),
            });
        }
        // All ranks have the slowest rank's times, so all drop the same.
        let least = rows
            .iter()
            .map(|row: &Row| row.separate.time_us)
            .fold(f64::INFINITY, f64::min);
        let keeps =
            |row: &&Row| request.bytes(ranks) < LARGE || row.separate.time_us <= FAR_BEHIND * least;
        self.ways = Some(rows.iter().filter(keeps).map(|row| row.way).collect());
        Ok(rows)
    }
}
