//! `topo what-if`: every single failure of a machine, and what is left of the job.

use anyhow::{Result, anyhow, bail};
use plan::{Collective, CostTable, GraphKind, GraphSummary, compare};
use planner::Settings;
use planner::cost::Profile;
use serde::Serialize;
use topology::edit::{Edit, Failure, FailureKind, failures};

use crate::arguments::JobArguments;
use crate::arguments::compare::{Failing, TextOrJson, WhatIfArguments};
use crate::edits;
use crate::environment::Environment;
use crate::input::Machine;
use crate::job::{self, Job};
use crate::output::Output;
use crate::render::{Look, settings, what_if};
use crate::sizes;

/// What is left, in figures.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// Ranks of the job.
    pub ranks: u32,
    /// Channels of collectives.
    pub channels: u32,
    /// Ring channels that were searched, and the bandwidth of each, GB/s.
    pub rings: (u32, f32),
    /// Predicted time of an all-reduce of each size, µs; `None` where no way is left.
    pub times: Vec<Option<f32>>,
    graphs: Vec<GraphSummary>,
    costs: CostTable,
}

/// Failures of one kind after which the same is left.
#[derive(Debug)]
pub struct Row {
    /// The failures.
    pub failures: Vec<Failure>,
    /// What is left, or why NCCL can no longer start.
    pub left: Result<Figures, String>,
    /// Share of its speed that an all-reduce of each size loses; negative where it becomes faster.
    pub losses: Vec<Option<f64>>,
}

/// Everything that the page says.
#[derive(Debug)]
pub struct Report {
    /// The job.
    pub job: Job,
    /// Sizes of all-reduces, bytes.
    pub sizes: Vec<u64>,
    /// Without any failure.
    pub whole: Figures,
    /// The failures, worst first.
    pub rows: Vec<Row>,
}

/// Plans the job once for each failure of its first host.
pub fn run(
    arguments: &WhatIfArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let given = &arguments.job;
    let settings = job::read_settings(given, environment, output)?;
    output.warnings.extend(settings::warnings(&settings));
    let hosts = job::hosts(job::read_machines(given, output)?, given, output)?;
    let sizes = sizes::expand(&arguments.sizes, 2).map_err(|problem| anyhow!(problem))?;
    let profile = Profile::nccl_2_30();
    let job = Job::of(hosts.clone(), given, settings.clone(), &profile, output)?;
    let whole = figures(&job, &sizes);
    let Some((first, _)) = hosts.first() else {
        bail!("the job has no hosts; expected at least one");
    };
    let wanted = failures(&first.document)
        .into_iter()
        .filter(|failure| is_wanted(failure.kind, &arguments.only));
    let several = hosts.iter().map(|(_, copies)| copies).sum::<u32>() > 1;
    let mut rows: Vec<Row> = Vec::new();
    for mut failure in wanted {
        if several {
            failure.edit = failure.edit.on_host(Some(0));
        }
        let left = fail(&hosts, &failure.edit, given, &settings)
            .map(|job| figures(&job, &sizes))
            .map_err(|error| format!("{error:#}"));
        let equal = rows.iter_mut().find(|row| {
            row.left == left
                && (row.failures[0].kind, row.failures[0].of) == (failure.kind, failure.of)
        });
        match equal {
            Some(row) => row.failures.push(failure),
            None => rows.push(Row {
                losses: losses(&whole, &left),
                failures: vec![failure],
                left,
            }),
        }
    }
    rows.sort_by(worst_first);
    let report = Report {
        job,
        sizes,
        whole,
        rows,
    };
    let look = Look {
        width: environment.width,
        colour: environment.colour,
    };
    output.text = match arguments.format {
        TextOrJson::Text => what_if::page(&report, look),
        TextOrJson::Json => {
            let again = |edit: &Edit| fail(&hosts, edit, given, &settings);
            json(&report, again)?
        }
    };
    Ok(())
}

fn is_wanted(kind: FailureKind, only: &[Failing]) -> bool {
    let class = match kind {
        FailureKind::Gpu => Failing::Gpu,
        FailureKind::Nic => Failing::Nic,
        FailureKind::Switch | FailureKind::NvSwitch => Failing::Switch,
        FailureKind::NvLink => Failing::Nvlink,
    };
    only.is_empty() || only.contains(&class)
}

/// The job after a failure.
fn fail(
    hosts: &[(Machine, u32)],
    edit: &Edit,
    arguments: &JobArguments,
    settings: &Settings,
) -> Result<Job> {
    let hosts = edits::apply(hosts.to_vec(), std::slice::from_ref(edit))?;
    // What is odd about the file was said of the whole machine.
    let mut said = Output::default();
    Job::of(
        hosts,
        arguments,
        settings.clone(),
        &Profile::nccl_2_30(),
        &mut said,
    )
}

fn figures(job: &Job, sizes: &[u64]) -> Figures {
    let joined = &job.joined;
    let costs = job.costs.clone();
    let ring = joined.facts.graph(GraphKind::Ring);
    let each = if joined.layout().nodes() > 1 {
        ring.bw_intra.min(ring.bw_inter)
    } else {
        ring.bw_intra
    };
    let time = |bytes: &u64| {
        let choice = costs.choose(Collective::AllReduce, *bytes).ok()?;
        Some(choice.time_us)
    };
    Figures {
        ranks: joined.layout().ranks(),
        channels: joined.common().channels.count(),
        rings: (ring.channels, each),
        times: sizes.iter().map(time).collect(),
        graphs: joined.common().graphs.clone(),
        costs,
    }
}

fn losses(whole: &Figures, left: &Result<Figures, String>) -> Vec<Option<f64>> {
    let Ok(left) = left else {
        return vec![None; whole.times.len()];
    };
    let loss = |(before, after): (&Option<f32>, &Option<f32>)| {
        let (before, after) = (f64::from((*before)?), f64::from((*after)?));
        Some(if after > 0.0 {
            1.0 - before / after
        } else {
            0.0
        })
    };
    whole.times.iter().zip(&left.times).map(loss).collect()
}

/// What cannot be planned comes first, then the largest loss of the largest message, then that of the smaller ones.
fn worst_first(one: &Row, other: &Row) -> std::cmp::Ordering {
    let rank = |row: &Row| {
        let losses = row
            .losses
            .iter()
            .rev()
            .map(|loss| loss.unwrap_or(f64::INFINITY));
        (row.left.is_ok(), losses.collect::<Vec<f64>>())
    };
    let ((fine, losses), (other_fine, other_losses)) = (rank(one), rank(other));
    fine.cmp(&other_fine).then_with(|| {
        let pairs = losses.iter().zip(&other_losses);
        pairs
            .map(|(loss, other)| other.total_cmp(loss))
            .find(|order| order.is_ne())
            .unwrap_or(std::cmp::Ordering::Equal)
    })
}

#[derive(Serialize)]
struct Left<'a> {
    ranks: u32,
    channels: u32,
    ring_channels: u32,
    ring_channel_gbps: f32,
    all_reduce: Vec<Timed<'a>>,
}

#[derive(Serialize)]
struct Timed<'a> {
    bytes: &'a u64,
    time_us: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<f64>,
}

fn left<'a>(figures: &Figures, sizes: &'a [u64], losses: &[Option<f64>]) -> Left<'a> {
    let times = sizes.iter().enumerate().map(|(at, bytes)| Timed {
        bytes,
        time_us: figures.times.get(at).copied().flatten(),
        loss: losses.get(at).copied().flatten(),
    });
    Left {
        ranks: figures.ranks,
        channels: figures.channels,
        ring_channels: figures.rings.0,
        ring_channel_gbps: figures.rings.1,
        all_reduce: times.collect(),
    }
}

fn json(report: &Report, again: impl Fn(&Edit) -> Result<Job>) -> Result<String> {
    let whole = report.job.artifact();
    let mut rows = Vec::new();
    for row in &report.rows {
        let failure = &row.failures[0];
        let mut value = serde_json::json!({
            "kind": failure.kind.name(),
            "names": row.failures.iter().map(|failure| &failure.name).collect::<Vec<_>>(),
            "options": row.failures.iter().map(|failure| edits::option(&failure.edit)).collect::<Vec<_>>(),
        });
        if let Some(of) = failure.of {
            value["links"] = of.into();
        }
        match &row.left {
            Err(problem) => value["cannot_be_planned"] = problem.as_str().into(),
            Ok(figures) => {
                value["left"] = serde_json::to_value(left(figures, &report.sizes, &row.losses))?;
                let failed = again(&failure.edit)?.artifact();
                let comparison = compare::compare(&whole, &failed, &report.sizes)?;
                value["differences"] = serde_json::to_value(&comparison.facts)?;
            }
        }
        rows.push(value);
    }
    let value = serde_json::json!({
        "name": report.job.name(),
        "hosts": report.job.hosts(),
        "whole": left(&report.whole, &report.sizes, &[]),
        "failures": rows,
    });
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}
