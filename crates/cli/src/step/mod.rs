//! `topo step`: the communication of a whole training or inference step.

mod beside;
mod input;
mod placed;

use answers::report;
use answers::step::picture::picture;
use answers::step::placement::place;
use answers::step::{StepError, StepQuestion, step, trace};
use anyhow::{Result, anyhow};

use crate::arguments::step::{PlacementSearch, StepArguments, StepFormat};
use crate::environment::Environment;
use crate::job::{self, Remedy};
use crate::output::Output;
use crate::progress::Progress;
use crate::settings::read_settings;
use crate::simulate::read_fabric;
use crate::sources;

pub(crate) fn run(
    arguments: &StepArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let machines = sources::read(&arguments.job, output)?.machines(
        " of all ranks; expected topology files, because each group is planned by itself",
    )?;
    let settings = read_settings(&machines, &arguments.job.variables, environment, output)?;
    let mut spec = job::spec(machines, &arguments.job, environment)?;
    spec.nvlink_domain |= arguments.domain_hosts.is_some();
    let job = job::checked(spec, Remedy::Option, output)?;
    let ranks = answers::step::ranks(&job)?;
    let workload = input::workload(arguments, ranks, output)?;
    if arguments.print_workload {
        return output.write(workload::list::csv::write(&workload), None);
    }
    let fabric = arguments.fabric.as_deref().map(read_fabric).transpose()?;
    let measurements = input::measurements(&arguments.measured, ranks)?;
    let question = StepQuestion {
        measurements: Some(&measurements),
        leaf: fabric.as_ref().and_then(|it| it.leaf.as_ref()),
        workload: &workload,
        domain_hosts: arguments.domain_hosts.unwrap_or_else(|| job.host_count()),
        room: arguments.gpu_memory.unwrap_or(0),
    };
    let mut answer = {
        let _progress = Progress::new(environment, "pricing");
        step(&job, &settings, &question).map_err(in_words)?
    };
    if let Some(PlacementSearch::Search) = arguments.placement {
        let _progress = Progress::new(environment, "placing");
        let found = place(&job, &settings, &question, arguments.orders);
        answer.placement = Some(found.map_err(in_words)?);
    }
    let written = match (&answer.placement, &arguments.dir) {
        (Some(placement), Some(dir)) => placed::write(placement, dir, arguments.nodes.as_deref())?,
        _ => Vec::new(),
    };
    let format = match arguments.json {
        true => StepFormat::Json,
        false => arguments.format,
    };
    if !arguments.beside.is_empty() {
        return beside::run(arguments, (answer, &question), format, environment, output);
    }
    match format {
        StepFormat::Text => {
            let page = answer.page(arguments.calls, &written);
            output.text = page.text(environment.look());
        }
        StepFormat::Json => output.text = report::json(&answer)?,
        StepFormat::Trace => {
            return output.write(trace::perfetto(&answer, &workload)? + "\n", None);
        }
        StepFormat::Svg => {
            return output.write(picture(&answer, &workload, true), None);
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
