//! `topo what-if`: every single failure of a machine, and what is left of the job.
//!
//! In reading order: [`work`] (planning within a time limit), [`report`], [`json`].

pub mod json;
pub mod report;
mod work;

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use planner::what_if::{EqualFailures, JobFigures};
use planner::{Job, Planned, Settings};
use topology::edit::{FailureKind, failures};

use crate::arguments::compare::{Failing, TextOrJson, WhatIfArguments};
use crate::environment::Environment;
use crate::job;
use crate::output::Output;
use crate::render::{Look, settings, what_if};
use crate::settings::read_settings;
use crate::{sizes, sources};
use bounds::optimum;
use json::WhatIfJson;
use report::{RowBounds, WhatIfReport};
use work::WhatIfRequest;

/// Plans the job once for each failure of its first host.
pub fn run(
    arguments: &WhatIfArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let given = &arguments.job;
    let settings = read_settings(&given.variables, environment, output)?;
    output.warnings.extend(settings::warnings(&settings));
    let job = job::job(
        sources::machines(given, output)?,
        given,
        environment,
        output,
    )?;
    let sizes = sizes::expand(&arguments.sizes, 2).map_err(|problem| anyhow!(problem))?;
    let Some(first) = job.hosts.first() else {
        bail!("the job has no hosts; expected at least one");
    };
    let wanted = failures(&first.document)
        .into_iter()
        .filter(|failure| is_wanted(failure.kind, &arguments.only));
    let again = arguments.bound.then(|| job.clone());
    let planning = settings.clone();
    let asked = WhatIfRequest {
        failures: wanted.collect(),
        job,
        settings,
        sizes: sizes.clone(),
        differences: arguments.form.format() == TextOrJson::Json,
    };
    let limit = arguments.time_limit.map(Duration::from_secs);
    let mut done = work::work(asked, limit, environment, output)?;
    done.rows.sort_by(EqualFailures::worst_first);
    let bounds = again.map(|job| {
        let rows = done
            .rows
            .iter()
            .map(|row| bounds_after(row, &job, &planning));
        (bounds_of(&done.whole), rows.collect())
    });
    let report = WhatIfReport {
        bounds,
        whole: JobFigures::of(&done.whole, &sizes),
        job: done.whole,
        sizes,
        rows: done.rows,
        left_out: done.left_out,
        time_limit: arguments.time_limit,
    };
    output.differs = !report.left_out.is_empty();
    let look = Look {
        width: environment.width,
        color: environment.color,
    };
    output.text = match arguments.form.format() {
        TextOrJson::Text => what_if::page(&report, look),
        TextOrJson::Json => answers::report::json(&WhatIfJson::of(&report))?,
    };
    Ok(())
}

/// The most that any schedule reaches after failures after which NCCL's plan is the same: for each
/// operation the least.
fn bounds_after(row: &EqualFailures, job: &Job, settings: &Settings) -> RowBounds {
    let mut least = RowBounds::new();
    for failure in &row.failures {
        let mut job = job.clone();
        let planned = job
            .edit(&failure.edit)
            .and_then(|()| planner::plan(&job, settings));
        let Ok(planned) = planned else {
            return RowBounds::new();
        };
        for (operation, bound) in bounds_of(&planned) {
            match least.iter_mut().find(|(known, _)| *known == operation) {
                Some((_, known)) => *known = known.min(bound),
                None => least.push((operation, bound)),
            }
        }
    }
    least
}

fn bounds_of(planned: &Planned) -> RowBounds {
    let all = optimum::of(planned);
    all.iter().map(|it| (it.operation, it.bound)).collect()
}

fn is_wanted(kind: FailureKind, only: &[Failing]) -> bool {
    let class = match kind {
        FailureKind::Gpu => Failing::Gpu,
        FailureKind::Nic => Failing::Nic,
        FailureKind::Switch | FailureKind::NvSwitch => Failing::Switch,
        FailureKind::NvLink | FailureKind::GpuNvLinks => Failing::Nvlink,
    };
    only.is_empty() || only.contains(&class)
}
