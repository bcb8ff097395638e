//! Other rings than NCCL's search finds, as a graph file for NCCL.

use bounds::reach::nccl_bandwidth;
use bounds::rings::{NoRings, Outcome, RingSearch, replan, search};
use plan::Plan;
use plan::certificate::UNITS;
use planner::{Job, Planned};
use program::Collective;

use crate::measured::{MeasuredLinks, OnMeasured};

/// Share of NCCL's bandwidth below which a collective counts as slower.
const AS_GOOD: f64 = 0.999;

/// A job planned with the best rings that were found.
#[derive(Debug)]
pub struct BetterRings {
    /// The job.
    pub planned: Planned,
    /// The graph file that NCCL follows; `None` if its own rings are as good.
    pub file: Option<String>,
    /// How these rings differ from NCCL's, in one line.
    pub line: String,
    /// Which collectives of long messages get slower, because NCCL has other trees beside them.
    pub losses: Vec<String>,
}

/// Why no rings were searched.
#[derive(Debug, thiserror::Error)]
pub enum BetterRingsError {
    /// The settings name rings.
    #[error("NCCL_GRAPH_FILE already has rings; expected it unset")]
    GivenRings,
    /// The job has no rings to search.
    #[error("{name}: {why}")]
    Search {
        /// The job.
        name: String,
        /// Why.
        why: NoRings,
    },
    /// The job cannot be planned with them.
    #[error(transparent)]
    Planner(#[from] planner::Error),
    /// A plan contradicts itself on measured links.
    #[error(transparent)]
    Plan(#[from] plan::Error),
}

/// Plans a job with the best rings that were found, on measured links if there are any. NCCL's plan
/// stays if it has them.
///
/// # Errors
/// The job has rings already, or none can be searched.
pub fn better_rings(
    job: &Job,
    planned: Planned,
    links: Option<&MeasuredLinks>,
) -> Result<BetterRings, BetterRingsError> {
    if planned.settings.graphs.is_some() {
        return Err(BetterRingsError::GivenRings);
    }
    let on_links = |planned: &Planned| {
        let links = links.cloned();
        links.map(|links| OnMeasured::new(planned, links, job.profile.as_ref()))
    };
    let measured = on_links(&planned).transpose()?;
    let searched = measured.as_ref().map_or(&planned, |it| &it.planned);
    let found = search(searched).map_err(|why| BetterRingsError::Search {
        name: planned.name(),
        why,
    })?;
    let line = line(&found, measured.is_some());
    if found.outcome == Outcome::Same {
        return Ok(BetterRings {
            planned,
            file: None,
            line,
            losses: Vec::new(),
        });
    }
    let under = |planned: &Planned| match links {
        Some(links) => planned.on_measured(|system, link| links.bandwidth(system, link)),
        None => planned.clone(),
    };
    let under: Option<&dyn Fn(&Planned) -> Planned> = measured.is_some().then_some(&under);
    let replanned = replan(job, &planned, &found, under)?;
    let losses = match (measured, on_links(&replanned.planned).transpose()?) {
        (Some(before), Some(after)) => losses(&before.priced_plan()?, &after.priced_plan()?),
        _ => losses(planned.plan(), replanned.planned.plan()),
    };
    Ok(BetterRings {
        planned: replanned.planned,
        file: Some(replanned.file),
        line,
        losses,
    })
}

pub(crate) fn line(found: &RingSearch, measured: bool) -> String {
    let unit = f64::from(UNITS);
    let [stated, carried, best] =
        [found.stated, found.carried, found.best].map(|it| it as f64 / unit);
    let on = if measured {
        " on the measured links"
    } else {
        ""
    };
    let most = format!("no rings carry more than {:.1}{on}", found.bound.per(unit));
    let channels = found.graph.channels.len();
    match found.outcome {
        Outcome::Same => format!("NCCL's, {stated:.1} GB/s; {most}"),
        Outcome::Restated => {
            format!("NCCL's, which carry {best:.1} GB/s where it states {stated:.1}; {most}")
        }
        Outcome::Better if measured => format!(
            "{channels} that NCCL's search does not find, {best:.1} GB/s where its own carry {carried:.1}; {most}"
        ),
        Outcome::Better => format!(
            "{channels} that NCCL's search does not find, {best:.1} GB/s where its own have {stated:.1}; {most}"
        ),
    }
}

/// Which collectives of long messages get slower, because NCCL has other trees beside these rings.
fn losses(before: &Plan, after: &Plan) -> Vec<String> {
    let loss = |collective: Collective| {
        let [before, after] = [before, after].map(|plan| nccl_bandwidth(plan, collective));
        let (before, after) = (before?, after?);
        (after < AS_GOOD * before).then(|| {
            format!(
                "{}: {after:.1} GB/s with these rings, {before:.1} without: NCCL finds slower trees for as many channels",
                collective.command_name()
            )
        })
    };
    let all = [
        Collective::AllReduce,
        Collective::AllGather,
        Collective::ReduceScatter,
    ];
    all.into_iter().filter_map(loss).collect()
}
