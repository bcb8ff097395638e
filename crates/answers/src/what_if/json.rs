//! The answer as JSON.

use crate::JsonSchema;
use plan::PlanDifference;
use plan::certificate::Operation;
use planner::what_if::{EqualFailures, JobFigures};
use serde::Serialize;
use topology::edit::Edit;

use super::{RowBounds, WhatIfAnswer};
use crate::report::Report;

/// The JSON of `topo diff --each-failure`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WhatIfReport {
    /// The job.
    name: String,
    /// Hosts of the job.
    hosts: u32,
    /// The job without any failure.
    whole: LeftRow,
    /// The failures, worst first; those after which the same is left are one.
    failures: Vec<FailureRow>,
    /// Failures that were not tried within the time limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<Vec<String>>,
}

/// Failures of one kind after which the same is left.
#[derive(Debug, Serialize, JsonSchema)]
struct FailureRow {
    /// The kind: GPU, NIC, PCI switch, NVSwitch, NVLink, all NVLinks of a GPU.
    kind: &'static str,
    /// The failures, one at a time.
    names: Vec<String>,
    /// How each is taken out of the job.
    edits: Vec<EditRow>,
    /// For one NVLink of a pair, the number of links between the two.
    #[serde(skip_serializing_if = "Option::is_none")]
    links: Option<i32>,
    /// The rest of the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<LeftRow>,
    /// How the plan differs from that of the whole job.
    #[serde(skip_serializing_if = "Option::is_none")]
    differences: Option<Vec<PlanDifference>>,
    /// Why NCCL cannot start.
    #[serde(skip_serializing_if = "Option::is_none")]
    cannot_be_planned: Option<String>,
}

/// A change of a machine.
#[derive(Debug, Serialize, JsonSchema)]
struct EditRow {
    /// `without`: a device or link is gone; `degrade`: a link is slower.
    kind: &'static str,
    /// The device or link, for `degrade` with what is left of it.
    of: String,
}

impl EditRow {
    fn of(edit: &Edit) -> Self {
        Self {
            kind: match edit.removes() {
                true => "without",
                false => "degrade",
            },
            of: edit.to_string(),
        }
    }
}

/// A job in figures.
#[derive(Debug, Serialize, JsonSchema)]
struct LeftRow {
    /// Ranks of the job.
    ranks: u32,
    /// Channels of collectives.
    channels: u32,
    /// Ring channels that were searched.
    ring_channels: u32,
    /// Bandwidth of each of them, GB/s.
    ring_channel_gbps: f32,
    /// Predicted all-reduces.
    all_reduce: Vec<TimedRow>,
    /// If asked for: the most that any schedule reaches, of several failures the least.
    #[serde(skip_serializing_if = "Option::is_none")]
    bounds: Option<Vec<BoundRow>>,
}

/// The most that any schedule of an operation reaches.
#[derive(Debug, Serialize, JsonSchema)]
struct BoundRow {
    /// The operation.
    operation: Operation,
    /// Bus bandwidth, GB/s.
    bound_gbps: f64,
}

/// A predicted all-reduce.
#[derive(Debug, Serialize, JsonSchema)]
struct TimedRow {
    /// Size of the message, bytes.
    bytes: u64,
    /// Predicted time, µs; null if no algorithm is left.
    time_us: Option<f32>,
    /// The share of its speed that is lost; negative: faster.
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<f64>,
}

impl Report for WhatIfReport {
    const FORMAT: &'static str = "topo-what-if";
    const VERSION: u32 = 2;
}

fn left(
    figures: &JobFigures,
    sizes: &[u64],
    losses: &[Option<f64>],
    bounds: Option<&RowBounds>,
) -> LeftRow {
    let times = sizes.iter().enumerate().map(|(at, bytes)| TimedRow {
        bytes: *bytes,
        time_us: figures.times.get(at).copied().flatten(),
        loss: losses.get(at).copied().flatten(),
    });
    LeftRow {
        ranks: figures.ranks,
        channels: figures.channels,
        ring_channels: figures.rings.0,
        ring_channel_gbps: figures.rings.1,
        all_reduce: times.collect(),
        bounds: bounds.map(|all| {
            let row = |(operation, bound): &(Operation, f64)| BoundRow {
                operation: *operation,
                bound_gbps: *bound,
            };
            all.iter().map(row).collect()
        }),
    }
}

fn failure(row: &EqualFailures, sizes: &[u64], bounds: Option<&RowBounds>) -> FailureRow {
    let first = &row.failures[0];
    let failures = || row.failures.iter();
    FailureRow {
        kind: first.kind.name(),
        names: failures().map(|failure| failure.name.clone()).collect(),
        edits: failures().map(|it| EditRow::of(&it.edit)).collect(),
        links: first.of,
        left: row
            .left
            .as_ref()
            .ok()
            .map(|figures| left(figures, sizes, &row.losses, bounds)),
        differences: row.differences.clone(),
        cannot_be_planned: row.left.as_ref().err().map(ToString::to_string),
    }
}

impl WhatIfReport {
    /// The answer.
    pub fn of(answer: &WhatIfAnswer) -> Self {
        let whole = answer.bounds.as_ref().map(|(whole, _)| whole);
        let rows = answer.rows.iter().enumerate().map(|(at, row)| {
            let bounds = answer.bounds.as_ref().and_then(|(_, rows)| rows.get(at));
            failure(row, &answer.sizes, bounds)
        });
        let left_out = answer.left_out.iter().map(|failure| failure.name.clone());
        Self {
            name: answer.job.name(),
            hosts: answer.job.plan().request.hosts,
            whole: left(&answer.whole, &answer.sizes, &[], whole),
            failures: rows.collect(),
            left_out: (!answer.left_out.is_empty()).then(|| left_out.collect()),
        }
    }
}
