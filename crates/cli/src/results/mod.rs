//! `topo results`: what was measured, beside what is predicted and the bound.

mod fitting;
mod input;
mod jobs;
pub mod json;
mod page;

use anyhow::{Result, bail};
use nccl_results::compare::{ComparedTable, compare};
use nccl_results::fit::Fit;

use crate::arguments::compare::TextOrJson;
use crate::arguments::results::ResultsArguments;
use crate::cost;
use crate::environment::Environment;
use crate::output::{self, Output};
use answers::report;
use jobs::Jobs;
use json::ResultsReport;

/// Everything that a page shows.
pub struct Compared {
    /// The tables.
    pub tables: Vec<ComparedTable>,
    /// Names of the jobs' machines with hosts and the version as which they are planned.
    pub jobs: Vec<JobName>,
    /// The fit, with the file that it is written to.
    pub fit: Option<(Fit, String)>,
}

/// What a job is called.
pub struct JobName {
    pub machine: String,
    pub hosts: u32,
    pub profile: String,
    /// The profile whose constants predict.
    pub constants: String,
}

pub fn run(
    arguments: &ResultsArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    if let Some(path) = &arguments.fit {
        output::refuse_overwriting(path, &arguments.files)?;
    }
    let profile = arguments
        .profile
        .as_deref()
        .map(cost::profile)
        .transpose()?;
    let read = input::read(&arguments.files, environment, output)?;
    if read.is_empty() {
        bail!("no measurement in {}", files(arguments));
    }
    let mut jobs = Jobs::default();
    let mut tables = Vec::new();
    for mut read in read {
        if let (Some(collective), None | Some(true)) = (
            arguments.collective,
            read.table.collective.map(|_| read.table.is_guessed),
        ) {
            read.table.collective = Some(collective);
            read.table.is_guessed = false;
        }
        let job = jobs.of(&read, arguments, profile.as_ref(), environment, output)?;
        let (at, notes) = job.map_or((None, Vec::new()), |(at, notes)| (Some(at), notes));
        let job = at.map(|at| (at, jobs.all[at].prediction(read.table.collective)));
        tables.push(compare(read.table, &read.logged.choices, job, notes));
    }
    let fit = match &arguments.fit {
        Some(path) => {
            let fit = fitting::fit(&tables, &jobs, profile.as_ref())?;
            fitting::write(&fit, path)?;
            Some((fit, path.display().to_string()))
        }
        None => None,
    };
    let names = jobs.all.iter().map(|job| JobName {
        machine: job.name.clone(),
        hosts: job.choosing.job.nodes.max(job.plan.request.hosts),
        profile: job.plan.profile.clone(),
        constants: job.predicting.profile.clone(),
    });
    let compared = Compared {
        jobs: names.collect(),
        tables,
        fit,
    };
    output.differs = compared.tables.iter().any(|it| !it.shortfalls.is_empty());
    output.text = match arguments.form.format() {
        TextOrJson::Text => page::page(&compared, environment.look()),
        TextOrJson::Json => report::json(&ResultsReport::of(&compared))?,
    };
    Ok(())
}

fn files(arguments: &ResultsArguments) -> String {
    let names = arguments.files.iter().map(|it| it.display().to_string());
    names.collect::<Vec<_>>().join(", ")
}
