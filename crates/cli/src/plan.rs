//! `topo plan`: what NCCL would do on a machine, or on many.

use anyhow::Result;
use plan::Plan;
use planner::Planned;

use crate::arguments::PlanArguments;
use crate::environment::Environment;
use crate::job;
use crate::output::{self, Output, PlanFormat};
use crate::render::plan::PlanPage;
use crate::render::{settings, summary};
use crate::sources::{self, Sources};

pub fn run(
    arguments: &PlanArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    if let Some(path) = &arguments.output {
        output::refuse_overwriting(path, &arguments.job.files)?;
    }
    let (plan, live) = match sources::read(&arguments.job, output)? {
        Sources::Plan(_, plan) => (*plan, None),
        Sources::Machines(machines) => {
            let planned = job::plan_machines(machines, &arguments.job, environment, output)?;
            (planned.plan(), Some(planned))
        }
    };
    show(&plan, live.as_ref(), arguments, environment, output)
}

fn show(
    plan: &Plan,
    live: Option<&Planned>,
    arguments: &PlanArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    if let Some(path) = &arguments.output {
        output::write(path, &plan.to_json()?)?;
    }
    let format = match arguments.json {
        true => PlanFormat::Json,
        false => arguments.format,
    };
    if let (Some(planned), true) = (live, format != PlanFormat::Text) {
        output
            .warnings
            .extend(settings::warnings(&planned.settings));
    }
    output.text = match format {
        PlanFormat::Quiet => summary::quiet(plan),
        PlanFormat::Json => plan.to_json()?,
        PlanFormat::NcclGraph => plan.graph_file()?,
        PlanFormat::Text => PlanPage {
            plan,
            expansion: &plan.expand()?,
            live,
            explain: arguments.explain,
            connections: arguments.connections,
            look: environment.look(),
        }
        .text(),
    };
    Ok(())
}
