//! The texts recorded beside a machine whose expectation is blessed, one fact per line.
//!
//! `paths.txt` has the nodes, the links and the paths between GPUs and network ports as the planner
//! sees them; `plans/h1.txt` and `plans/h2.txt` have the plans for one host and for two, with the
//! trail of every search. Each line names its subject, so that a line of a diff can be read alone.

mod names;
mod paths;
mod plans;
mod value;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use planner::{Job, Settings};
use testkit::Machine;

/// One expected file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedFile {
    /// Path in the machine's folder.
    pub path: PathBuf,
    /// Expected content.
    pub text: String,
}

/// Numbers of hosts whose plans are recorded.
const HOSTS: [u32; 2] = [1, 2];

/// The present texts of a machine.
///
/// # Errors
/// The topology file cannot be read as a machine.
pub fn of(machine: &Machine) -> Result<Vec<ExpectedFile>> {
    let document = Arc::new(machine.document()?);
    let mut expected = vec![ExpectedFile {
        path: PathBuf::from("paths.txt"),
        text: paths::text(machine.system()?),
    }];
    for hosts in HOSTS {
        let planned = planner::plan(
            &Job::hosts(Arc::clone(&document), hosts),
            &Settings::default(),
        );
        expected.push(ExpectedFile {
            path: PathBuf::from(format!("plans/h{hosts}.txt")),
            text: plans::text(hosts, planned),
        });
    }
    Ok(expected)
}
