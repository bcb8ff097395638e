//! `topo cost --memory`: what communicators allocate.

use answers::{head, report};
use anyhow::Result;
use pages::{Field, Tone};

use crate::arguments::compare::{CostArguments, TextOrJson};
use crate::environment::Environment;
use crate::job;
use crate::output::Output;
use crate::sources::{self};

pub(super) fn run(
    arguments: &CostArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let machines = sources::read(&arguments.job, output)?.machines(
        ", which does not say how memory is allocated; expected topology files with --memory",
    )?;
    let (job, given) = job::given(machines, &arguments.job, environment, output)?;
    let planned = job::plan_job(&job, &given, output)?;
    let answer = answers::communicators::communicators(&job, &planned, &arguments.question)?;
    output.text = match arguments.form.format() {
        TextOrJson::Text => {
            let mut page = answer.page();
            let settings = head::settings_of_plan(&planned.plan().settings);
            // Plans do not follow it, but memory does.
            let notes = head::notes(&given).filter(|it| !it.starts_with("NCCL_CUMEM_ENABLE:"));
            let notes = notes.map(|it| Field::remark(Tone::Notice, it));
            let below = page.fields.len() - 1;
            page.fields
                .splice(below..below, [settings].into_iter().chain(notes));
            page.text(environment.look())
        }
        TextOrJson::Json => report::json(&answer)?,
    };
    Ok(())
}
