//! Plans the job of a request.

use std::sync::Arc;

use answers::{Gpus, JobSpec, Machine};
use planner::{Planned, Settings};
use topology::edit::Edit;
use topology::xml::{self, Document};

use crate::request::{File, JobRequest};

/// A planned job.
#[derive(Debug)]
pub struct Made {
    /// The plan with its machines.
    pub planned: Planned,
    /// The settings.
    pub settings: Settings,
    /// What is odd about the file and the job.
    pub notes: Vec<String>,
}

/// Reads a machine.
///
/// # Errors
/// There is no such machine, or the file is no topology.
pub fn read(file: &File) -> Result<Document, String> {
    let text = match &file.text {
        Some(text) => text.as_str(),
        None => {
            built_in::find(&file.name)
                .ok_or_else(|| format!("there is no machine {}", file.name))?
                .text
        }
    };
    xml::parse(&file.name, text.as_bytes()).map_err(|why| why.to_string())
}

/// The settings of a job.
///
/// # Errors
/// The version is not known.
pub fn settings(request: &JobRequest) -> Result<Settings, String> {
    let version = match request.nccl.as_deref() {
        None | Some("") => planner::NcclVersion::default(),
        Some(text) => text.parse().map_err(|why| format!("NCCL {text}: {why}"))?,
    };
    let set = request.set.iter().cloned();
    Ok(Settings::with_variables(version, set))
}

/// Plans a job.
///
/// # Errors
/// The machine cannot be read or planned, an option is wrong.
pub fn plan(request: &JobRequest) -> Result<Made, String> {
    let document = read(&request.file)?;
    let settings = settings(request)?;
    let without = request.without.iter().map(|text| Edit::without(text));
    let degrade = request.degrade.iter().map(|text| Edit::degrade(text));
    let edits: Result<Vec<Edit>, _> = without.chain(degrade).collect();
    let warnings = document.warnings.iter().map(ToString::to_string);
    let mut notes: Vec<String> = warnings.collect();
    let machine = Machine {
        name: request.file.name.clone(),
        document: Arc::new(document),
    };
    let spec = JobSpec {
        hosts: request.hosts,
        gpus: match request.gpus.is_empty() {
            true => Gpus::All,
            false => Gpus::Listed(request.gpus.clone()),
        },
        edits: edits.map_err(|why| why.to_string())?,
        nvlink_domain: request.nvlink_domain,
        ..JobSpec::of(machine)
    };
    let made = spec.job().map_err(|why| why.to_string())?;
    notes.extend(made.notes.iter().map(ToString::to_string));
    let planned = planner::plan(&made.job, &settings).map_err(|why| why.to_string())?;
    notes.extend(planned.notes.iter().map(ToString::to_string));
    Ok(Made {
        planned,
        settings,
        notes,
    })
}
