//! Measured links from a file.

use std::path::Path;

use answers::measured::{MeasuredLinks, OnMeasured};
use anyhow::{Context, Result, anyhow};
use planner::Planned;
use planner::cost::CostProfile;
use records::Measurements;

use crate::arguments::measured::MeasuredArguments;
use crate::output::Output;

/// Largest file that is read, bytes.
const LIMIT: u64 = records::bandwidth::MOST_BYTES as u64;

/// The measured links of a job's machine; `None` without the option.
pub(crate) fn links(
    arguments: &MeasuredArguments,
    planned: &Planned,
) -> Result<Option<MeasuredLinks>> {
    let Some(file) = &arguments.measured else {
        return Ok(None);
    };
    let measurements = read(file)?;
    let links = MeasuredLinks::of(planned, &measurements);
    Ok(Some(links.map_err(|error| anyhow!("--measured: {error}"))?))
}

/// A job on its measured links, of which the page says everything; `None` without the option.
pub(crate) fn shown_links(
    arguments: &MeasuredArguments,
    planned: &Planned,
    profile: Option<&CostProfile>,
) -> Result<Option<OnMeasured>> {
    let Some(links) = links(arguments, planned)? else {
        return Ok(None);
    };
    Ok(Some(OnMeasured::new(planned, links, profile)?))
}

/// A job on its measured links; what is odd about them becomes warnings.
pub(crate) fn on_links(
    arguments: &MeasuredArguments,
    planned: &Planned,
    profile: Option<&CostProfile>,
    output: &mut Output,
) -> Result<Option<OnMeasured>> {
    let found = shown_links(arguments, planned, profile)?;
    if let Some(measured) = &found {
        output.warnings.extend(notes(&measured.links));
    }
    Ok(found)
}

/// What is odd about measured links, with the file's name.
pub(crate) fn notes(links: &MeasuredLinks) -> impl Iterator<Item = String> + '_ {
    let notes = links.notes.iter();
    notes.map(|note| format!("{}: {note}", links.source))
}

fn read(file: &Path) -> Result<Measurements> {
    let name = file.display().to_string();
    let cannot = || format!("cannot read the measurements {name}");
    let bytes = files::read(file, LIMIT).with_context(cannot)?;
    Ok(Measurements::read(&name, &bytes)?)
}
