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
use records::evidence::recorder::State;

use crate::verdict::{Missing, Verdict, Wait};

/// Most calls of a recorder without a rank that are told.
const MOST_OPEN: usize = 4;

/// What the recorders say.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) missing: Vec<Missing>,
    pub(crate) waits: Vec<Wait>,
}

/// What the last recorder says by itself, if nobody knows whose it is.
pub(crate) fn says(recorders: &Recorders) -> Vec<String> {
    let last = recorders.dumps.last().filter(|it| it.rank.is_none());
    let calls = last.iter().flat_map(|it| &it.entries);
    let open = calls.filter(|it| it.state != State::Completed);
    let says = open.take(MOST_OPEN).map(|it| {
        let group = recorders.groups.get(it.group as usize);
        let text = |symbol| recorders.symbols.text(symbol);
        let state = match it.state {
            State::Started => "started",
            _ => "called",
        };
        format!(
            "{} {} of group {} ({}) was {state} and is not finished",
            text(it.function),
            it.sequence,
            group.map_or("?", |it| text(it.name)),
            group.map_or("", |it| text(it.description))
        )
    });
    says.collect()
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
