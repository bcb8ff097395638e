//! Measured times beside predicted ones and the bound: rows, steps of the ladder of algorithms, and
//! where they fall short.

use std::collections::BTreeMap;

use plan::CostTable;
use plan::cost::{Calls, TunedOperation};
use program::{Collective, Reduction};

use crate::results::ladder::{Choice, ComparedRow, Step, steps};
use crate::results::published::Expected;
use crate::results::shortfall::{Shortfall, below_floors, find};
use crate::results::values::{Row, Table};

/// NCCL's choices, by number of ranks, collective and size.
pub type LoggedChoices = BTreeMap<(u32, Collective, u64), Choice>;

/// The prediction for the job of a table.
#[derive(Debug, Clone)]
pub struct Prediction<'a> {
    /// The costs with NCCL's own constants, which choose.
    pub choosing: &'a CostTable,
    /// The costs with the constants that predict.
    pub predicting: &'a CostTable,
    /// The bound of the table's collective.
    pub bound: Option<Bound>,
    /// Judge by what healthy machines reach, instead of by the predicted time.
    pub is_acceptance: bool,
}

/// The upper bound of all schedules of a collective on the job's machines.
#[derive(Debug, Clone)]
pub struct Bound {
    /// Bus bandwidth, GB/s.
    pub gbps: f64,
    /// Bandwidth of NCCL's plan, GB/s.
    pub nccl_gbps: f64,
    /// The limit there, in words; empty if there is none.
    pub limit: String,
}

/// A table with what was predicted.
#[derive(Debug)]
pub struct ComparedTable {
    /// The table.
    pub table: Table,
    /// Its job's number.
    pub job: Option<usize>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// The rows that were measured.
    pub rows: Vec<ComparedRow>,
    /// The steps of the ladder.
    pub steps: Vec<Step>,
    /// The bound, GB/s of bus bandwidth.
    pub bound_gbps: Option<f64>,
    /// The limit there, in words.
    pub limit: Option<String>,
    /// The share of the bound that the plan reaches.
    pub planned_share: Option<f64>,
    /// Where the measurements fall short.
    pub shortfalls: Vec<Shortfall>,
}

/// Compares a table with what is predicted for the job of a number.
pub fn compare(
    table: Table,
    logged: &LoggedChoices,
    job: Option<(usize, Prediction<'_>)>,
    notes: Vec<String>,
) -> ComparedTable {
    let (job, priced) = job.map_or((None, None), |(at, priced)| (Some(at), Some(priced)));
    let priced = priced.as_ref();
    let bound = priced.and_then(|it| it.bound.as_ref());
    let bound_gbps = bound.map(|it| it.gbps);
    let ranks = table
        .rank_count()
        .or(priced.map(|it| it.choosing.job.ranks));
    let rows: Vec<ComparedRow> = table
        .rows
        .iter()
        .filter_map(|row| compared_row(row, (&table, ranks), logged, priced, bound_gbps))
        .collect();
    let steps = steps(&rows);
    let shortfalls = match priced {
        Some(Prediction { is_acceptance, .. }) if *is_acceptance => below_floors(&table, &rows),
        _ => find(&table, &rows, &steps),
    };
    ComparedTable {
        job,
        limit: bound.map(|it| it.limit.clone()).filter(|it| !it.is_empty()),
        planned_share: bound.map(|it| it.nccl_gbps / it.gbps),
        table,
        notes,
        rows,
        steps,
        bound_gbps,
        shortfalls,
    }
}

fn compared_row(
    row: &Row,
    (table, ranks): (&Table, Option<u32>),
    logged: &LoggedChoices,
    job: Option<&Prediction<'_>>,
    bound_gbps: Option<f64>,
) -> Option<ComparedRow> {
    let measured = row.measured()?;
    let bus_gbps = match table.collective.zip(ranks).filter(|_| table.lacks_bus) {
        Some((collective, ranks)) => measured.algorithm_gbps * collective.bus_factor(ranks),
        None => measured.bus_gbps,
    };
    let in_place = row.out_of_place.as_ref().and(row.in_place.as_ref());
    let wrong = row.placements().filter_map(|it| it.wrong);
    let mut compared = ComparedRow {
        bytes: row.bytes,
        measured_us: measured.time_us,
        in_place_us: in_place.map(|it| it.time_us),
        bus_gbps,
        wrong: wrong.reduce(u64::saturating_add),
        choice: None,
        is_logged: false,
        ran: row.ran.as_ref().map(|it| it.algorithm.clone()),
        channels: row.ran.as_ref().and_then(|it| it.channels),
        predicted_us: row.predicted_us,
        latency_share: None,
        bound_share: bound_gbps.map(|bound| bus_gbps / bound),
        expected: None,
    };
    // topo run chooses by itself, and predicts by the measured profile of its backend.
    if let (Some(collective), false) = (table.collective, row.ran.is_some()) {
        let key = ranks.map(|ranks| (ranks, collective, row.bytes));
        let said = key.and_then(|key| logged.get(&key).copied());
        predict(&mut compared, row, collective, said, job);
    }
    Some(compared)
}

/// Adds what NCCL took, and its predicted time.
fn predict(
    compared: &mut ComparedRow,
    row: &Row,
    collective: Collective,
    said: Option<Choice>,
    job: Option<&Prediction<'_>>,
) {
    compared.is_logged = said.is_some();
    compared.choice = said;
    let Some(job) = job else { return };
    let operation = operation(row, collective);
    let chosen = job.choosing.choose_for(&operation).ok();
    let Some(choice) = said.or(chosen.map(|it| (it.algorithm, it.protocol))) else {
        return;
    };
    compared.choice = Some(choice);
    compared.channels = Some(job.choosing.size(row.bytes, choice.0, choice.1).0);
    let time = job.predicting.time_us(&operation, choice).map(f64::from);
    compared.predicted_us = time.filter(|it| *it > 0.0);
    if job.is_acceptance {
        let time = job.choosing.time_us(&operation, choice).map(f64::from);
        let bus = time.map(|time| compared.bus_gbps * compared.measured_us / time);
        let bus = bus.filter(|it| it.is_finite());
        let job = &job.choosing.job;
        compared.expected =
            bus.and_then(|bus| Expected::of(job, (collective, choice.0), (row.bytes, bus)));
    }
    let entry = job.predicting.entry(collective, choice.0, choice.1);
    if let (Some(entry), Some(time)) = (entry, compared.predicted_us) {
        compared.latency_share = Some((f64::from(entry.latency) / time).min(1.0));
    }
}

/// The operation of a row.
fn operation(row: &Row, collective: Collective) -> TunedOperation {
    let reduction = row.reduction.as_deref().unwrap_or("sum");
    TunedOperation {
        calls: Calls {
            data_type: row.element.parse().unwrap_or_default(),
            reduction: reduction.parse().unwrap_or(Reduction::Sum),
            ..Calls::ONE
        },
        ..TunedOperation::new(collective, row.bytes)
    }
}
