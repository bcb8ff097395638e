//! `topo export`: a plan as files that NCCL obeys.

mod folder;
mod page;
mod sets;

use answers::export::{ExportError, ExportReport, export};
use answers::report;
use anyhow::{Result, bail};

use crate::arguments::compare::TextOrJson;
use crate::arguments::export::ExportArguments;
use crate::environment::Environment;
use crate::output::Output;
use folder::Folder;

pub(crate) fn run(
    arguments: &ExportArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let sets = sets::planned(arguments, environment, output)?;
    let Some(first) = sets.first() else {
        bail!(ExportError::NoSet);
    };
    let folder = Folder::open(&arguments.dir)?;
    let made = export(
        &sets,
        folder.path(),
        arguments.channels,
        arguments.element.calls(),
    )?;
    for file in &made.files {
        folder.write(&file.name, &file.content)?;
    }
    let shown = folder.path().display().to_string();
    let done = ExportReport::of(made, &first.name, &first.plan.profile, shown);
    output.text = match arguments.form.format() {
        TextOrJson::Text => page::page(&done, environment.look()),
        TextOrJson::Json => report::json(&done)?,
    };
    Ok(())
}
