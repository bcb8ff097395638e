//! `topo what-if`: every single failure of a machine, and what is left of the job.
//!
//! In reading order: [`work`] (one failure after the other, within a time limit), [`json`].

mod json;
mod work;

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use plan::{CostTable, GraphSummary};
use topology::edit::{Failure, FailureKind, failures};

use crate::arguments::compare::{Failing, TextOrJson, WhatIfArguments};
use crate::environment::Environment;
use crate::job::{self, Job};
use crate::output::Output;
use crate::render::{Look, settings, what_if};
use crate::sizes;
use work::Asked;

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
    /// Every difference of the two plans, if they were asked for.
    pub differences: Option<serde_json::Value>,
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
    /// Failures that were not looked at, because the time was over.
    pub left_out: Vec<Failure>,
    /// How long it may take, s.
    pub time_limit: Option<u64>,
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
    let Some((first, _)) = hosts.first() else {
        bail!("the job has no hosts; expected at least one");
    };
    let wanted = failures(&first.document)
        .into_iter()
        .filter(|failure| is_wanted(failure.kind, &arguments.only));
    let asked = Asked {
        failures: wanted.collect(),
        hosts,
        arguments: given.clone(),
        settings,
        sizes: sizes.clone(),
        differences: arguments.format == TextOrJson::Json,
    };
    let limit = arguments.time_limit.map(Duration::from_secs);
    let mut done = work::work(asked, limit, environment, output)?;
    done.rows.sort_by(worst_first);
    let report = Report {
        job: done.job,
        sizes,
        whole: done.whole,
        rows: done.rows,
        left_out: done.left_out,
        time_limit: arguments.time_limit,
    };
    output.differs = !report.left_out.is_empty();
    let look = Look {
        width: environment.width,
        colour: environment.colour,
    };
    output.text = match arguments.format {
        TextOrJson::Text => what_if::page(&report, look),
        TextOrJson::Json => json::page(&report)?,
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
