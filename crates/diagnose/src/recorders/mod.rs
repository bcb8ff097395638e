//! Ranks by their flight recorders.
//!
//! In reading order: `job` (the calls of each rank in each group), `compare` (calls that must be
//! equal), `stuck` (calls that do not end, and who keeps them), `mismatches` (verdicts
//! about ranks that disagree), `explain` (verdicts about calls that do not end).

mod compare;
mod explain;
mod job;
mod mismatches;
mod stuck;

pub(crate) use mismatches::fingerprints;

use std::collections::BTreeMap;

use records::evidence::Recorders;

use crate::verdict::{Missing, Verdict, Wait};

/// What the recorders say.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) missing: Vec<Missing>,
    pub(crate) waits: Vec<Wait>,
}

/// Verdicts from the recorders of a job. `hosts` has the host of each rank that logs name;
/// `is_hang`: other evidence says that the job hangs.
pub(crate) fn verdicts(
    recorders: &Recorders,
    hosts: &BTreeMap<u32, String>,
    is_hang: bool,
) -> Found {
    if recorders.dumps.is_empty() {
        return Found::default();
    }
    let job = job::Job::of(recorders, hosts);
    let mut found = Found {
        missing: job.missing(),
        ..Found::default()
    };
    found.verdicts.extend(mismatches::group_differs(&job));
    let is_hang = is_hang || job.is_old();
    let stuck = stuck::stuck(&job, is_hang);
    let mismatches = compare::mismatches(&job, &stuck);
    explain::explain(&job, &stuck, &mismatches, is_hang, &mut found);
    found
}
