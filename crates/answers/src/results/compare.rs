//! Measured times beside predicted ones and the bound: rows, steps of the ladder of algorithms, and
//! where they fall short.

use bounds::optimum::Optimum;
use plan::cost::{Calls, TunedOperation};
use program::{Collective, Reduction};
use records::gpu;
use records::results::ladder::{Choice, ComparedRow, Step, steps};
use records::results::published::Expected;
use records::results::shortfall::{Kind, Shortfall, below_floors, find};
use records::results::values::{Timing, Tool};
use records::results::{Row, Table};
use serde::Serialize;

use super::jobs::{Jobs, PricedJob};
use super::likely::{Miss, PlantedFaults};
use super::read::LoggedChoices;
use super::timing;
use crate::JsonSchema;
use crate::expect::situation::situation;
use crate::report::as_text;

/// One table.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ComparedTable {
    /// The file.
    pub file: String,
    /// The line of its first row, from 1; 0 in JSON.
    pub line: u64,
    /// The program that made it: nccl-tests, rccl-tests, OSU micro-benchmarks or topo run.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub tool: Tool,
    /// The program, such as `all_reduce_perf`.
    pub program: Option<String>,
    /// The collective.
    pub collective: Option<Collective>,
    /// The file does not name the program: the collective is that of the columns and bandwidths.
    pub collective_guessed: bool,
    /// Ranks.
    pub ranks: Option<u32>,
    /// Hosts.
    pub hosts: Option<u32>,
    /// NCCL's version that the file names.
    pub nccl: Option<String>,
    /// The machine whose plan is compared.
    pub machine: Option<String>,
    /// Hosts of that plan.
    pub planned_hosts: Option<u32>,
    /// The version as which it is planned, as the name of its cost profile.
    pub planned_as: Option<String>,
    /// The cost profile that predicts.
    pub profile: Option<String>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// The most bus bandwidth that any schedule reaches, GB/s.
    pub bound_gbps: Option<f64>,
    /// The limit there.
    pub limit: Option<String>,
    /// The share of the bound that the plan reaches.
    pub planned_share: Option<f64>,
    /// The average bus bandwidth that the program prints, GB/s.
    pub average_bus_bandwidth_gbps: Option<f64>,
    /// Rows that are cut, or whose columns contradict each other, which are left out.
    pub damaged_rows: u64,
    /// The sizes that were measured.
    pub rows: Vec<ComparedRow>,
    /// Sizes that follow each other with the same algorithm and protocol.
    pub steps: Vec<Step>,
    /// Where the measurements fall short.
    pub shortfalls: Vec<Shortfall>,
    /// Sizes below their floors with likely causes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub misses: Vec<Miss>,
    /// The job's number.
    #[serde(skip)]
    pub(super) job: Option<usize>,
    /// The rows as they were read.
    #[serde(skip)]
    pub(super) read: Vec<Row>,
    /// The model of the first GPU.
    #[serde(skip)]
    pub(super) model: Option<String>,
    /// Other GPUs were measured than those of the plan; which.
    #[serde(skip)]
    pub(super) other_gpus: Option<String>,
    /// The calls of a job.
    #[serde(skip)]
    pub(super) timing: Option<Box<Timing>>,
    /// No column has the bus bandwidth.
    #[serde(skip)]
    pub(super) lacks_bus: bool,
    /// The line of the first damaged row, from 1; 0 without any.
    #[serde(skip)]
    pub first_damaged: u64,
    /// Columns of some rows contradict each other.
    #[serde(skip)]
    pub contradicts: bool,
}

/// The prediction for a table.
struct Prediction<'a> {
    job: &'a PricedJob,
    /// Judge by what healthy machines reach, instead of by the predicted time.
    is_acceptance: bool,
}

/// Compares a table with what is predicted for the job of a number.
pub(super) fn compare(
    table: Table,
    logged: &LoggedChoices,
    job: Option<(usize, &PricedJob)>,
    is_acceptance: bool,
    mut notes: Vec<String>,
) -> ComparedTable {
    let (number, job) = job.unzip();
    let priced = job.map(|job| Prediction { job, is_acceptance });
    let bound: Option<&Optimum> = job.and_then(|it| it.bounds.get(&table.collective?)?.as_ref());
    let bound_gbps = bound.map(|it| it.bound);
    let ranks = table.rank_count().or(job.map(|it| it.choosing.job.ranks));
    let compared = |row| compared_row(row, (&table, ranks), logged, priced.as_ref(), bound_gbps);
    let mut rows = Vec::with_capacity(table.rows.len());
    rows.extend(table.rows.iter().filter_map(compared));
    let steps = steps(&rows);
    let shortfalls = match job {
        Some(_) if is_acceptance => below_floors(&table, &rows),
        _ => find(&table, &rows, &steps),
    };
    let shortfalls = match &table.timing {
        None => shortfalls,
        Some(of_job) => {
            notes.push(timing::note(of_job, ranks.unwrap_or(0)));
            let all = shortfalls.into_iter();
            all.map(|it| timing::with_place(of_job, it, &table, &rows))
                .collect()
        }
    };
    let limit = bound.map(|it| it.limit.summary());
    ComparedTable {
        tool: table.tool,
        line: table.line,
        collective: table.collective,
        collective_guessed: table.is_guessed,
        ranks: table.rank_count(),
        hosts: table.host_count(),
        other_gpus: job.and_then(|it| other_gpus(&table, it)),
        model: table.devices.first().map(|it| it.model.clone()),
        lacks_bus: table.lacks_bus,
        first_damaged: table.first_damaged,
        contradicts: table.contradictions.is_some(),
        average_bus_bandwidth_gbps: table.average_bus_gbps,
        damaged_rows: table.damaged,
        timing: table.timing,
        file: table.file,
        program: table.program,
        nccl: table.nccl,
        read: table.rows,
        machine: job.map(|it| it.name.clone()),
        planned_hosts: job.map(PricedJob::hosts),
        planned_as: job.map(|it| it.plan.profile.clone()),
        profile: job.map(|it| it.predicting.profile.clone()),
        job: number,
        notes,
        bound_gbps,
        limit: limit.filter(|it| !it.is_empty()),
        planned_share: bound.map(|it| it.nccl / it.bound),
        rows,
        steps,
        shortfalls,
        misses: Vec::new(),
    }
}

/// The first GPU of a table, if its name is of another compute capability than the plan's.
fn other_gpus(table: &Table, job: &PricedJob) -> Option<String> {
    let model = &table.devices.first()?.model;
    let (measured, planned) = (gpu::kind_of_name(model)?.sm, job.choosing.job.min_cc);
    let shown = |sm: i32| format!("{}.{}", sm / 10, sm % 10);
    (measured != planned).then(|| {
        format!(
            "{model} has compute capability {}, and the GPUs of {} have {}",
            shown(measured),
            job.name,
            shown(planned)
        )
    })
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
        algorithm: None,
        protocol: None,
        is_logged: false,
        ran: row.ran.as_ref().map(|it| it.algorithm.clone()),
        channels: row.ran.as_ref().and_then(|it| it.channels),
        predicted_us: row.predicted_us,
        ratio: None,
        latency_share: None,
        bound_share: bound_gbps.map(|bound| bus_gbps / bound),
        expected_gbps: None,
        floor_gbps: None,
        unknown: None,
        like: None,
    };
    // topo run chooses by itself, and predicts by the measured profile of its backend.
    if let (Some(collective), false) = (table.collective, row.ran.is_some()) {
        let key = ranks.map(|ranks| (ranks, collective, row.bytes));
        let said = key.and_then(|key| logged.get(&key).copied());
        predict(&mut compared, row, collective, said, job);
    }
    let predicted = compared.predicted_us.filter(|it| *it > 0.0);
    compared.ratio = predicted.map(|it| compared.measured_us / it);
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
    (compared.algorithm, compared.protocol) = said.unzip();
    let Some(Prediction { job, is_acceptance }) = job else {
        return;
    };
    let operation = operation(row, collective);
    let chosen = job.choosing.choose_for(&operation).ok();
    let Some(choice) = said.or(chosen.map(|it| (it.algorithm, it.protocol))) else {
        return;
    };
    (compared.algorithm, compared.protocol) = (Some(choice.0), Some(choice.1));
    compared.channels = Some(job.choosing.size(row.bytes, choice.0, choice.1).0);
    let time = job.predicting.time_us(&operation, choice).map(f64::from);
    compared.predicted_us = time.filter(|it| *it > 0.0);
    if *is_acceptance {
        let known = situation(&job.plan, &job.choosing, collective);
        let known = known.and_then(|it| Expected::of(&it, row.bytes).map_err(|it| it.to_string()));
        compared.unknown = known.as_ref().err().cloned();
        let expected = known.as_ref().ok();
        compared.expected_gbps = expected.map(|it| it.bus_gbps);
        compared.floor_gbps = expected.map(|it| it.floor_gbps);
        let run = expected.and_then(|it| it.runs.first());
        compared.like = run.map(|it| it.name.as_str());
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

impl Jobs {
    /// The sizes of a table below their floors, with likely causes.
    pub(super) fn misses(&mut self, table: &ComparedTable) -> Vec<Miss> {
        let is_below = table
            .shortfalls
            .iter()
            .any(|it| it.kind == Kind::BelowFloor);
        let Some(priced) = table.job.and_then(|at| self.all.get_mut(at)) else {
            return Vec::new();
        };
        let (Some(planned), Some(job), true) = (&priced.planned, &priced.job, is_below) else {
            return Vec::new();
        };
        let planted = || PlantedFaults::of(job, planned);
        let faults = priced.faults.get_or_insert_with(planted);
        faults.misses(table, &priced.choosing, &planned.settings.in_force)
    }
}
