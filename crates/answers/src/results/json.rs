//! The JSON of `topo expect --results`.

use super::fit::trust::Summary;
use super::fit::{Fit, UndeterminedConstant};
use crate::JsonSchema;
use plan::Algorithm;
use program::{Collective, Protocol};
use records::results::compare::ComparedTable;
use records::results::ladder::{ComparedRow, Step};
use records::results::shortfall::Shortfall;
use serde::Serialize;

use super::Results;
use super::likely::LikelyCause;
use crate::report::Report;

/// Measurements beside the prediction and the bound.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ResultsReport {
    tables: Vec<TableJson>,
    /// The fit, where one was asked for.
    fit: Option<FitJson>,
}

impl Report for ResultsReport {
    const FORMAT: &'static str = "topo-results";
    const VERSION: u32 = 1;
}

/// One table.
#[derive(Debug, Serialize, JsonSchema)]
struct TableJson {
    file: String,
    /// The line of its first row, from 1; 0 in JSON.
    line: u64,
    /// The program that made it: nccl-tests, rccl-tests, OSU micro-benchmarks or topo run.
    tool: &'static str,
    /// The program, such as `all_reduce_perf`.
    program: Option<String>,
    collective: Option<Collective>,
    /// The file does not name the program: the collective is that of the columns and bandwidths.
    collective_guessed: bool,
    ranks: Option<u32>,
    hosts: Option<u32>,
    /// NCCL's version that the file names.
    nccl: Option<String>,
    /// The machine whose plan is compared.
    machine: Option<String>,
    /// Hosts of that plan.
    planned_hosts: Option<u32>,
    /// The version as which it is planned, as the name of its cost profile.
    planned_as: Option<String>,
    /// The cost profile that predicts.
    profile: Option<String>,
    /// Notes for the reader.
    notes: Vec<String>,
    /// The most bus bandwidth that any schedule reaches, GB/s.
    bound_gbps: Option<f64>,
    /// The limit there.
    limit: Option<String>,
    /// The share of the bound that the plan reaches.
    planned_share: Option<f64>,
    /// The average bus bandwidth that the program prints, GB/s.
    average_bus_bandwidth_gbps: Option<f64>,
    /// Rows that are cut, or whose columns contradict each other, which are left out.
    damaged_rows: u64,
    rows: Vec<RowJson>,
    /// Sizes that follow each other with the same algorithm and protocol.
    steps: Vec<StepJson>,
    /// Where the measurements fall short.
    shortfalls: Vec<Shortfall>,
    /// Sizes below their floors with likely causes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    misses: Vec<MissJson>,
}

/// Sizes below their floors.
#[derive(Debug, Serialize, JsonSchema)]
struct MissJson {
    /// The size that is farthest below, bytes.
    bytes: u64,
    bus_bandwidth_gbps: f64,
    /// The causes, the likely ones first.
    likely_causes: Vec<LikelyCauseJson>,
}

/// A cause that may explain a miss.
#[derive(Debug, Serialize, JsonSchema)]
struct LikelyCauseJson {
    /// Its id, as in the causes of a diagnosis.
    cause: &'static str,
    title: &'static str,
    /// The links, ports or hosts that would have it.
    place: String,
    /// Bus bandwidth that a healthy machine with this fault is expected to reach, GB/s; null if the
    /// job's settings show the cause.
    expected_gbps: Option<f64>,
    /// This is the most that is left; it may be half of it.
    at_most: bool,
    advice: &'static str,
}

/// One size.
#[derive(Debug, Serialize, JsonSchema)]
struct RowJson {
    /// Bytes of the whole message.
    bytes: u64,
    /// Time with two buffers, else with one, µs.
    measured_us: f64,
    /// Time with one buffer, if both were measured, µs.
    in_place_us: Option<f64>,
    bus_bandwidth_gbps: f64,
    /// Wrong elements; null if they were not counted.
    wrong: Option<u64>,
    algorithm: Option<Algorithm>,
    protocol: Option<Protocol>,
    /// The file names the choice; otherwise it is the plan's.
    logged: bool,
    /// The algorithm that topo run names.
    ran: Option<String>,
    channels: Option<u32>,
    predicted_us: Option<f64>,
    /// Measured by predicted time.
    ratio: Option<f64>,
    /// The share of the predicted time that is latency.
    latency_share: Option<f64>,
    /// Bus bandwidth by bound.
    bound_share: Option<f64>,
    /// What a healthy machine reaches, GB/s, if that was asked for and is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_gbps: Option<f64>,
    /// The least of a healthy machine, GB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    floor_gbps: Option<f64>,
}

/// A step of the ladder of algorithms.
#[derive(Debug, Serialize, JsonSchema)]
struct StepJson {
    algorithm: Algorithm,
    protocol: Protocol,
    /// Its first size, bytes.
    from_bytes: u64,
    /// Its last size, bytes.
    to_bytes: u64,
    /// Fewest and most channels.
    channels: Option<(u32, u32)>,
    /// The median of measured by predicted time.
    ratio: Option<f64>,
    /// The largest.
    worst_ratio: Option<f64>,
    /// The size that has it, bytes.
    worst_bytes: u64,
}

/// Constants fitted to the measurements.
#[derive(Debug, Serialize, JsonSchema)]
struct FitJson {
    /// The name of the cost profile.
    file: String,
    /// The cost profile, in TOML.
    profile: Option<String>,
    /// Measured times that were used.
    measurements: usize,
    /// Measured times of choices that the model does not have.
    unmodelled: usize,
    constants: Vec<FittedJson>,
    /// Constants that the measurements do not determine; they keep their values.
    undetermined: Vec<UndeterminedJson>,
    /// Constants on which no measurement depends.
    untouched: usize,
    /// Errors of predicted times with the constants before.
    before: ErrorsJson,
    /// Errors of predicted times with the fitted constants.
    after: ErrorsJson,
    /// Errors at sizes that the fit had not seen; null with too few sizes.
    held_out: Option<ErrorsJson>,
    /// Errors by choice.
    steps: Vec<StepErrorJson>,
}

/// A fitted constant.
#[derive(Debug, Serialize, JsonSchema)]
struct FittedJson {
    /// Its keys in the file of the profile.
    constant: String,
    before: f64,
    value: f64,
    /// Its relative standard error; null if the measurements say only that it is at least this.
    relative_error: Option<f64>,
}

/// A constant that keeps its value.
#[derive(Debug, Serialize, JsonSchema)]
struct UndeterminedJson {
    constant: String,
    /// The fitted constant that changes times as this one does.
    like: Option<String>,
    /// The relative error that it would have.
    relative_error: Option<f64>,
}

/// How wide predicted times are of measured ones, as shares of the measured ones.
#[derive(Debug, Serialize, JsonSchema)]
struct ErrorsJson {
    median: f64,
    /// Nine of ten errors are at most this.
    ninth_tenth: f64,
    worst: f64,
    /// The size that has the worst, bytes.
    worst_bytes: u64,
}

/// The errors of one choice.
#[derive(Debug, Serialize, JsonSchema)]
struct StepErrorJson {
    collective: Collective,
    algorithm: Algorithm,
    protocol: Protocol,
    measurements: usize,
    /// The median of measured by predicted time − 1, before the fit.
    bias_before: f64,
    /// The same after it.
    bias: f64,
    after: ErrorsJson,
}

impl ResultsReport {
    /// The report of tables.
    pub fn of(results: &Results) -> Self {
        let tables = results.tables.iter();
        Self {
            tables: tables
                .enumerate()
                .map(|(at, it)| TableJson {
                    misses: misses(results, at),
                    ..TableJson::of(it, results)
                })
                .collect(),
            fit: results
                .fit
                .as_ref()
                .map(|(fit, file)| FitJson::of(fit, file)),
        }
    }
}

/// The misses of a table.
fn misses(results: &Results, table: usize) -> Vec<MissJson> {
    let misses = results.misses.get(table).into_iter().flatten();
    let misses = misses.map(|it| MissJson {
        bytes: it.bytes,
        bus_bandwidth_gbps: it.bus_gbps,
        likely_causes: it.causes.iter().map(LikelyCauseJson::of).collect(),
    });
    misses.collect()
}

impl LikelyCauseJson {
    fn of(it: &LikelyCause) -> Self {
        Self {
            cause: it.cause.id,
            title: it.cause.title,
            place: it.place.clone(),
            expected_gbps: it.gbps,
            at_most: it.at_most,
            advice: it.cause.advice,
        }
    }
}

impl TableJson {
    fn of(it: &ComparedTable, results: &Results) -> Self {
        let table = &it.table;
        let job = it.job.and_then(|at| results.jobs.get(at));
        Self {
            file: table.file.clone(),
            line: table.line,
            tool: table.tool.name(),
            program: table.program.clone(),
            collective: table.collective,
            collective_guessed: table.is_guessed,
            ranks: table.rank_count(),
            hosts: table.host_count(),
            nccl: table.nccl.clone(),
            machine: job.map(|it| it.machine.clone()),
            planned_hosts: job.map(|it| it.hosts),
            planned_as: job.map(|it| it.profile.clone()),
            profile: job.map(|it| it.constants.clone()),
            notes: it.notes.clone(),
            bound_gbps: it.bound_gbps,
            limit: it.limit.clone(),
            planned_share: it.planned_share,
            average_bus_bandwidth_gbps: table.average_bus_gbps,
            damaged_rows: table.damaged,
            rows: it.rows.iter().map(RowJson::of).collect(),
            steps: it
                .steps
                .iter()
                .map(|step| StepJson::of(step, &it.rows))
                .collect(),
            shortfalls: it.shortfalls.clone(),
            misses: Vec::new(),
        }
    }
}

impl RowJson {
    fn of(row: &ComparedRow) -> Self {
        Self {
            bytes: row.bytes,
            measured_us: row.measured_us,
            in_place_us: row.in_place_us,
            bus_bandwidth_gbps: row.bus_gbps,
            wrong: row.wrong,
            algorithm: row.choice.map(|it| it.0),
            protocol: row.choice.map(|it| it.1),
            logged: row.is_logged,
            ran: row.ran.clone(),
            channels: row.channels,
            predicted_us: row.predicted_us,
            ratio: row.ratio(),
            latency_share: row.latency_share,
            bound_share: row.bound_share,
            expected_gbps: row.expected.map(|it| it.bus_gbps),
            floor_gbps: row.expected.map(|it| it.floor_gbps()),
        }
    }
}

impl StepJson {
    fn of(step: &Step, rows: &[ComparedRow]) -> Self {
        Self {
            algorithm: step.choice.0,
            protocol: step.choice.1,
            from_bytes: rows[step.rows.0].bytes,
            to_bytes: rows[step.rows.1].bytes,
            channels: step.channels,
            ratio: step.ratio,
            worst_ratio: rows[step.worst].ratio(),
            worst_bytes: rows[step.worst].bytes,
        }
    }
}

impl FitJson {
    fn of(fit: &Fit, file: &str) -> Self {
        let undetermined = |it: &UndeterminedConstant| match it {
            UndeterminedConstant::Like(constant, other) => UndeterminedJson {
                constant: constant.name.clone(),
                like: Some(other.name.clone()),
                relative_error: None,
            },
            UndeterminedConstant::Weak(constant, error) => UndeterminedJson {
                constant: constant.name.clone(),
                like: None,
                relative_error: Some(*error),
            },
        };
        let constants = fit.constants.iter().map(|it| FittedJson {
            constant: it.constant.name.clone(),
            before: it.before,
            value: it.value,
            relative_error: it.error,
        });
        let steps = fit.steps.iter().map(|it| StepErrorJson {
            collective: it.collective,
            algorithm: it.algorithm,
            protocol: it.protocol,
            measurements: it.count,
            bias_before: it.bias[0],
            bias: it.bias[1],
            after: ErrorsJson::of(&it.after),
        });
        Self {
            file: file.to_owned(),
            profile: fit.profile.to_toml().ok(),
            measurements: fit.used,
            unmodelled: fit.unmodelled,
            constants: constants.collect(),
            undetermined: fit.undetermined.iter().map(undetermined).collect(),
            untouched: fit.untouched,
            before: ErrorsJson::of(&fit.before),
            after: ErrorsJson::of(&fit.after),
            held_out: fit.held.as_ref().map(|it| ErrorsJson::of(&it.errors)),
            steps: steps.collect(),
        }
    }
}

impl ErrorsJson {
    const fn of(summary: &Summary) -> Self {
        Self {
            median: summary.median,
            ninth_tenth: summary.most,
            worst: summary.worst,
            worst_bytes: summary.worst_bytes,
        }
    }
}
