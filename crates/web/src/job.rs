//! Plans the job of a request.

use planner::{Job, Planned, Settings, with_gpus};
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
    /// The machine as it was read, with what was odd.
    pub document: Document,
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
    let mut document = read(&request.file)?;
    if !request.gpus.is_empty() {
        document = with_gpus(&document, &request.gpus);
    }
    let settings = settings(request)?;
    let mut job = Job {
        nvlink_domain: request.nvlink_domain,
        ..Job::hosts(document.clone(), request.hosts)
    };
    let without = request.without.iter().map(|text| Edit::without(text));
    let degrade = request.degrade.iter().map(|text| Edit::degrade(text));
    for edit in without.chain(degrade) {
        let edit = edit.map_err(|why| why.to_string())?;
        job.edit(&edit).map_err(|why| why.to_string())?;
    }
    let planned = planner::plan(&job, &settings).map_err(|why| why.to_string())?;
    Ok(Made {
        planned,
        settings,
        document,
    })
}
