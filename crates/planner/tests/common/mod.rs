//! Machines and jobs to test with.

#![allow(dead_code, reason = "each test file uses its part")]

use std::path::PathBuf;

use plan::{Fingerprint, Plan, Producer, RequestSummary};
use planner::artifact;
use planner::cost::{self, Profile};
use planner::{Cluster, Error, JobPlan, Settings};
use topology::System;
use topology::xml::Document;

pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../topologies")
}

/// The machines with a topology file, by name.
pub fn machines() -> Vec<String> {
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

pub fn document(name: &str) -> Document {
    let path = folder().join(name).join("topology.xml");
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    topology::xml::parse(name, &bytes).unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub fn system(name: &str) -> System {
    System::from_document(&document(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub fn settings(variables: &[(&str, &str)]) -> Settings {
    Settings::from_variables(
        variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
    )
}

pub fn join(cluster: &Cluster, variables: &[(&str, &str)]) -> Result<JobPlan, Error> {
    let settings = settings(variables);
    JobPlan::new(cluster.plan(false, &settings)?, &settings)
}

pub fn artifact_of(joined: &JobPlan) -> Plan {
    let request = RequestSummary {
        hosts: joined.layout().hosts(),
        nvlink_domain: false,
        collnet: joined.plan.collnet,
    };
    let producer = Producer {
        name: "test".to_owned(),
        version: "0".to_owned(),
    };
    let costs = cost::table(
        &joined.cost_inputs(),
        &Settings::default().tuning,
        &Profile::nccl_2_30(),
    )
    .expect("no restriction");
    let fingerprint = Fingerprint::new("nccl-2.30").finish();
    let mut plan = Plan::new(producer, "nccl-2.30", fingerprint, request);
    artifact::fill(&mut plan, joined, costs, &[]);
    plan
}
