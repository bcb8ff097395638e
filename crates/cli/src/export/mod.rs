//! `topo export`: a plan as files that NCCL obeys.

mod folder;
mod page;
mod sets;

use std::path::Path;

use answers::export::{ExportError, ExportReport, PlannedSet, export};
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
        measured: sets.measured.clone(),
        ..write(&sets.all, &arguments.dir, arguments.channels, calls, output)?
    };
    output.text = match arguments.form.format() {
        TextOrJson::Text => page::page(&done, environment.look()),
        TextOrJson::Json => report::json(&done)?,
    };
    Ok(())
}

/// Writes the files of sets of GPUs into a folder, and removes others of an earlier run.
pub(crate) fn write(
    sets: &[PlannedSet],
    dir: &Path,
    channels: bool,
    calls: Calls,
    output: &mut Output,
) -> Result<ExportReport> {
    let Some(first) = sets.first() else {
        bail!(ExportError::NoSet);
    };
    let folder = Folder::open(dir)?;
    let made = export(sets, folder.path(), channels, calls)?;
    let mut left = folder.earlier();
    folder.write(&made.files)?;
    left.retain(|name| made.files.iter().all(|it| it.name != *name));
    output.warnings.extend(folder.remove(&left)?);
    let shown = folder.path().display().to_string();
    Ok(ExportReport::of(
        made,
        &first.name,
        &first.plan.profile,
        shown,
    ))
}

/// Removes the files of an earlier run from a folder, if there is one: they are no answer any more.
pub(crate) fn clear(dir: &Path, output: &mut Output) -> Result<()> {
    if dir.is_dir() {
        let folder = Folder::open(dir)?;
        output.warnings.extend(folder.remove(&folder.earlier())?);
    }
    Ok(())
}
