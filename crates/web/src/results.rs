//! What was measured, beside what is predicted for a job and its bound.

use nccl_results::compare::{Bound, ComparedTable, Prediction, compare};
use nccl_results::ladder::ComparedRow;
use nccl_results::shortfall::words;
use nccl_results::{Collector, Table, json as tests_json};
use serde_json::{Value, json};

use answers::request::{File, JobRequest};

/// Reads the results of nccl-tests, rccl-tests or `topo run`, and compares them with a job.
///
/// # Errors
/// The file cannot be read, or has no measurement.
pub fn answer(file: &File, request: &JobRequest) -> Result<Value, String> {
    let text = file.text.as_deref().unwrap_or_default();
    let mut log = nccl_log::Collector::default();
    let tables = match text.trim_start().starts_with('{') {
        true => vec![tests_json::read(&file.name, text).map_err(|why| why.to_string())?],
        false => {
            let read = log.read(&file.name, text.as_bytes(), |_| {});
            read.map_err(|why| format!("{}: {why}", file.name))?;
            let mut results = Collector::default();
            results.begin(&file.name);
            text.lines().for_each(|line| results.line(line));
            results.finish().tables
        }
    };
    if tables.is_empty() {
        return Err(format!(
            "{}: no measurement; expected a table of nccl-tests or rccl-tests, JSON of nccl-tests (-J), or topo run \
             --json",
            file.name
        ));
    }
    let logged = log.finish().choices();
    let tables = tables.into_iter().map(|table| {
        let hosts = table.host_count().unwrap_or(request.hosts);
        let job = JobRequest {
            hosts,
            ..request.clone()
        };
        let compared = match job.plan() {
            Err(why) => compare(table, &logged, None, vec![format!("not predicted: {why}")]),
            Ok(made) => compare_with(table, &logged, &made.planned, hosts),
        };
        shown(&compared)
    });
    Ok(json!({ "name": file.name, "tables": tables.collect::<Vec<_>>() }))
}

/// Compares a table with a job, if that has as many ranks.
fn compare_with(
    table: Table,
    logged: &nccl_results::compare::LoggedChoices,
    planned: &planner::Planned,
    hosts: u32,
) -> ComparedTable {
    let (name, ranks) = (planned.name(), planned.costs.job.ranks);
    if let Some(measured) = table.rank_count().filter(|it| *it != ranks) {
        let note = format!(
            "not predicted: the table is of {measured} ranks, and {hosts} of {name} have {ranks}; choose the machine, the \
             hosts and the GPUs that were measured"
        );
        return compare(table, logged, None, vec![note]);
    }
    let plan = planned.plan();
    let collective = table.collective;
    let bound = collective.and_then(|it| bounds::optimum::of_collective(planned, &plan, it));
    let prediction = Prediction {
        choosing: &planned.costs,
        predicting: &planned.costs,
        bound: bound.map(|it| Bound {
            gbps: it.bound,
            nccl_gbps: it.nccl,
            limit: it.limit.summary(),
        }),
    };
    let note = format!("predicted for {hosts} of {name}");
    compare(table, logged, Some((0, prediction)), vec![note])
}

fn shown(compared: &ComparedTable) -> Value {
    let table = &compared.table;
    let shortfalls = compared.shortfalls.iter().map(|it| &it.text);
    json!({
        "tool": table.tool.name(),
        "collective": table.collective.map(|it| it.to_string()),
        "ranks": table.rank_count(),
        "nccl": table.nccl,
        "bound_gbps": compared.bound_gbps,
        "limit": compared.limit,
        "planned_share": compared.planned_share,
        "notes": compared.notes,
        "shortfalls": shortfalls.collect::<Vec<_>>(),
        "rows": compared.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn row(row: &ComparedRow) -> Value {
    json!({
        "bytes": row.bytes,
        "measured_us": row.measured_us,
        "in_place_us": row.in_place_us,
        "bus_gbps": row.bus_gbps,
        "choice": row.choice.map(words).or(row.ran.clone()),
        "is_logged": row.is_logged,
        "channels": row.channels,
        "predicted_us": row.predicted_us,
        "ratio": row.ratio(),
        "bound_share": row.bound_share,
        "wrong": row.wrong,
    })
}
