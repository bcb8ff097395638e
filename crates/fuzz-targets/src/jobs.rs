//! Small jobs, planned.

use plan::{CostTable, Fingerprint, Plan, Producer, RequestSummary};
use planner::cost::{self, Profile};
use planner::{Cluster, JobPlan, Settings, artifact};
use topology::System;
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
/// There is none.
pub fn document(name: &str) -> Document {
    let file = format!("topologies/{name}/topology.xml");
    let bytes = input::files(&[&file]).remove(0);
    parse(&file, &bytes).unwrap_or_else(|error| panic!("{error}"))
}

/// A job of equal hosts.
///
/// # Errors
/// NCCL refuses the machine, or the settings.
pub fn joined(
    document: &Document,
    hosts: u32,
    collnet: bool,
    settings: &Settings,
) -> Result<JobPlan, String> {
    let words = |error: planner::Error| error.to_string();
    let system = System::from_document(document).map_err(|error| error.to_string())?;
    let plan = Cluster::equal(system, hosts)
        .plan(collnet, settings)
        .map_err(words)?;
    JobPlan::new(plan, settings).map_err(words)
}

/// What collectives cost in a job.
///
/// # Errors
/// NCCL refuses `NCCL_ALGO` or `NCCL_PROTO`.
pub fn costs(
    joined: &JobPlan,
    settings: &Settings,
    profile: &Profile,
) -> Result<CostTable, String> {
    cost::table(&joined.cost_inputs(), &settings.tuning, profile).map_err(|error| error.to_string())
}

/// A job as the plan that `topo plan -o` writes.
pub fn plan(joined: &JobPlan, hosts: u32, collnet: bool, costs: CostTable) -> Plan {
    let request = RequestSummary {
        hosts,
        nvlink_domain: false,
        collnet,
    };
    let producer = Producer {
        name: "topo".to_owned(),
        version: "0".to_owned(),
    };
    let fingerprint = Fingerprint::new("nccl-2.30").request(&request).finish();
    let mut plan = Plan::new(producer, "nccl-2.30", fingerprint, request);
    artifact::fill(&mut plan, joined, costs, &[]);
    plan
}

/// The plan of a machine of the repository.
///
/// # Panics
/// It cannot be planned.
pub fn plan_of(name: &str, hosts: u32, collnet: bool) -> Plan {
    let settings = Settings::default();
    let joined = joined(&document(name), hosts, collnet, &settings);
    let joined = joined.unwrap_or_else(|error| panic!("{name}: {error}"));
    let costs = costs(&joined, &settings, &Profile::nccl_2_30());
    let costs = costs.unwrap_or_else(|error| panic!("{name}: {error}"));
    plan(&joined, hosts, collnet, costs)
}
