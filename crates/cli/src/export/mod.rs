//! `topo export`: a plan as files that NCCL obeys.

mod folder;
mod page;
mod sets;

use std::path::Path;

use answers::export::{ExportError, ExportReport, PlannedSet, export};
use answers::measured::MeasuredLinksReport;
use answers::report;
use anyhow::{Result, bail};
use plan::cost::Calls;

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
    let calls = arguments.element.calls();
    let done = ExportReport {
        measured: sets.measured.as_ref().map(MeasuredLinksReport::of),
        ..write(&sets.all, &arguments.dir, arguments.channels, calls)?
    };
    output.text = match arguments.form.format() {
        TextOrJson::Text => page::page(&done, environment.look()),
        TextOrJson::Json => report::json(&done)?,
    };
    Ok(())
}

/// Writes the files of sets of GPUs into a folder.
pub(crate) fn write(
    sets: &[PlannedSet],
    dir: &Path,
    channels: bool,
    calls: Calls,
) -> Result<ExportReport> {
    let Some(first) = sets.first() else {
        bail!(ExportError::NoSet);
    };
    let folder = Folder::open(dir)?;
    let made = export(sets, folder.path(), channels, calls)?;
    for file in &made.files {
        folder.write(&file.name, &file.content)?;
    }
    let shown = folder.path().display().to_string();
    Ok(ExportReport::of(
        made,
        &first.name,
        &first.plan.profile,
        shown,
    ))
}
