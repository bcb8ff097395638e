//! Plans of small jobs.

use plan::Plan;
use planner::{Error, Job, Planned, Settings};
use topology::xml::{Document, parse};

use crate::input;

/// Topologies with one to eight GPUs that are planned in milliseconds.
pub const SMALL: [&str; 6] = [
    "workstation-2gpu-nvlink",
    "workstation-2gpu",
    "gh200",
    "random-00181",
    "pcie-8gpu-nonet",
    "dgx-h100",
];

/// The topology of a machine of the repository.
///
/// # Panics
/// The repository has no such machine.
pub fn document(name: &str) -> Document {
    let file = format!("topologies/{name}/topology.xml");
    let bytes = input::files(&[&file]).remove(0);
    parse(&file, &bytes).unwrap_or_else(|error| panic!("{error}"))
}

/// Plans a job of equal hosts.
///
/// # Errors
/// NCCL refuses the machine or the settings.
pub fn planned(
    document: &Document,
    hosts: u32,
    collnet: bool,
    settings: &Settings,
) -> Result<Planned, Error> {
    let job = Job {
        collnet,
        ..Job::hosts(document.clone(), hosts)
    };
    planner::plan(&job, settings)
}

/// The plan of a machine of the repository.
///
/// # Panics
/// It cannot be planned.
pub fn plan_of(name: &str, hosts: u32, collnet: bool) -> Plan {
    let planned = planned(&document(name), hosts, collnet, &Settings::default());
    planned
        .unwrap_or_else(|error| panic!("{name}: {error}"))
        .plan()
        .clone()
}
