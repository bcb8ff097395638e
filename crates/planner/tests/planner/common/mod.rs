//! Machines and jobs to test with.

use std::path::PathBuf;

use planner::{Error, Job, Planned, Settings};
use topology::xml::Document;

pub(crate) fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../topologies")
}

/// The machines with a topology file, by name.
pub(crate) fn machines() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join("topology.xml").is_file())
        .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .collect();
    names.sort();
    assert!(!names.is_empty(), "no machines in {}", folder().display());
    names
}

pub(crate) fn document(name: &str) -> Document {
    let path = folder().join(name).join("topology.xml");
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    topology::xml::parse(name, &bytes).unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub(crate) fn settings(variables: &[(&str, &str)]) -> Settings {
    Settings::from_variables(
        variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    )
}

/// Plans a job with these variables.
pub(crate) fn plan(job: &Job, variables: &[(&str, &str)]) -> Result<Planned, Error> {
    planner::plan(job, &settings(variables))
}

/// A job of equal hosts.
pub(crate) fn equal(machine: &str, hosts: u32) -> Job {
    Job::hosts(document(machine), hosts)
}
