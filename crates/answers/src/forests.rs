//! A plan with trees that come near the most that any schedule reaches.

use bounds::planned_forests;
use plan::Plan;
use plan::certificate::CertificateError;
use planner::Planned;

/// Why a plan has no such trees.
#[derive(Debug, thiserror::Error)]
pub enum ForestError {
    /// Nothing is sent.
    #[error("{0}: one rank needs no trees; expected at least two GPUs")]
    OneRank(String),
    /// None come near any bound.
    #[error(
        "{0}: no trees were found for this job; the bounds say how far its rings are from the best"
    )]
    None(String),
    /// The links contradict themselves.
    #[error(transparent)]
    Links(#[from] CertificateError),
    /// The plan contradicts its trees.
    #[error(transparent)]
    Plan(#[from] plan::Error),
}

/// The plan of a job with trees for its collectives. `units` is the number of trees for each root;
/// none: the least number that comes near the bound.
///
/// # Errors
/// There are no trees for any collective.
pub fn with_forests(planned: &Planned, units: Option<u64>) -> Result<Plan, ForestError> {
    if planned.plan().rank_count() < 2 {
        return Err(ForestError::OneRank(planned.name()));
    }
    let forests = planned_forests(planned, units)?;
    if forests.is_empty() {
        return Err(ForestError::None(planned.name()));
    }
    Ok(planned.plan().with_forests(forests)?)
}
