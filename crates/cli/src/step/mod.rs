//! `topo step`: the communication of a whole training or inference step.

mod input;
mod page;
mod trace;

use answers::report;
use answers::step::{StepAnswer, StepError, StepQuestion, StepReport, step};
use anyhow::{Result, anyhow, bail};
use draw::timeline::{Bar, Row, timeline};
use planner::Job;
use workload::Workload;

use crate::arguments::step::{StepArguments, StepFormat};
use crate::environment::Environment;
use crate::job;
use crate::output::Output;
use crate::progress::Progress;
use crate::settings::read_settings;
use crate::sources::{self, Sources};

pub(crate) fn run(
    arguments: &StepArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let machines = match sources::read(&arguments.job, output)? {
        Sources::Plan(name, _) => bail!(
            "{name} is a plan of all ranks; expected topology files, because each group is planned by itself"
        ),
        Sources::Machines(machines) => machines,
    };
    let settings = read_settings(&arguments.job.variables, environment, output)?;
    let mut spec = job::spec(machines, &arguments.job, environment)?;
    spec.nvlink_domain |= arguments.domain_hosts.is_some();
    let options = job::Options::of(arguments.job.gpus.as_deref());
    let job: Job = job::checked(spec, &options, output)?;
    let ranks = answers::step::ranks(&job)?;
    let workload = input::workload(arguments, ranks, output)?;
    if arguments.print_workload {
        return output.write(workload::list::csv::write(&workload), None);
    }
    let question = StepQuestion {
        workload: &workload,
        domain_hosts: arguments.domain_hosts.unwrap_or_else(|| job.host_count()),
        room: arguments.gpu_memory.unwrap_or(0),
    };
    let answer = {
        let _progress = Progress::new(environment, "pricing");
        step(&job, &settings, &question).map_err(in_words)?
    };
    let format = match arguments.json {
        true => StepFormat::Json,
        false => arguments.format,
    };
    let look = environment.look();
    match format {
        StepFormat::Text => {
            let page = page::Page {
                answer: &answer,
                workload: &workload,
                settings: &settings,
                shown: arguments.calls,
            };
            output.text = page.text(look);
        }
        StepFormat::Json => {
            output.text = report::json(&StepReport::of(&answer, &workload))?;
        }
        StepFormat::Trace => {
            return output.write(trace::perfetto(&answer, &workload)? + "\n", None);
        }
        StepFormat::Svg => {
            let title = format!("{}: one step", answer.name);
            let rows = rows(&answer, &workload);
            let picture = timeline(&title, &rows, answer.timeline.end_us, true);
            return output.write(picture, None);
        }
    }
    Ok(())
}

/// An error with the options that it is about.
fn in_words(error: StepError) -> anyhow::Error {
    match error {
        StepError::OtherRanks { .. } => anyhow!("--hosts: {error}"),
        error => error.into(),
    }
}

/// The rows of the picture: computation, and each group.
fn rows(answer: &StepAnswer, workload: &Workload) -> Vec<Row> {
    let compute = answer.timeline.compute.iter().map(|span| Bar {
        span_us: *span,
        hint: "computation".to_owned(),
    });
    let mut rows = vec![Row {
        name: "computation".to_owned(),
        bars: compute.collect(),
    }];
    rows.extend(answer.groups.iter().map(|group| Row {
        name: group.name.clone(),
        bars: Vec::new(),
    }));
    for (call, span) in workload.calls.iter().zip(&answer.timeline.spans) {
        rows[call.group + 1].bars.push(Bar {
            span_us: [span.start_us, span.end_us],
            hint: page::label(call),
        });
    }
    rows
}
