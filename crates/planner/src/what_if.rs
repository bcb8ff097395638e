//! The rest of a job after each single failure of its first host.
//!
//! [`WhatIf`] plans the job once for each failure, one per step of the iterator, so that the caller
//! decides how long that may take.

use std::cmp::Ordering;

use plan::{CostTable, GraphKind, GraphSummary, Plan, compare};
use program::Collective;
use topology::edit::Failure;

use crate::error::Error;
use crate::job::Job;
use crate::planned::{Planned, plan};
use crate::settings::Settings;

/// A job in figures.
#[derive(Debug, Clone, PartialEq)]
pub struct JobFigures {
    /// Ranks of the job.
    pub ranks: u32,
    /// Channels of collectives.
    pub channels: u32,
    /// Ring channels that were searched, and the bandwidth of each, GB/s.
    pub rings: (u32, f32),
    /// Predicted time of an all-reduce of each size, µs; `None` where no algorithm is left.
    pub times: Vec<Option<f32>>,
    graphs: Vec<GraphSummary>,
    costs: CostTable,
}

impl JobFigures {
    /// Reads the figures of a job, for all-reduces of these sizes in bytes.
    pub fn of(planned: &Planned, sizes: &[u64]) -> Self {
        let (job, costs) = (&planned.job, &planned.costs);
        let ring = job.facts.graph(GraphKind::Ring);
        let each = if job.layout().nodes() > 1 {
            ring.bw_intra.min(ring.bw_inter)
        } else {
            ring.bw_intra
        };
        let time = |bytes: &u64| {
            let choice = costs.choose(Collective::AllReduce, *bytes).ok()?;
            Some(choice.time_us)
        };
        Self {
            ranks: job.layout().ranks(),
            channels: job.common().channels.count(),
            rings: (ring.channels, each),
            times: sizes.iter().map(time).collect(),
            graphs: job.common().graphs.clone(),
            costs: costs.clone(),
        }
    }
}

/// Failures of one kind after which the same is left.
#[derive(Debug)]
pub struct EqualFailures {
    /// The failures.
    pub failures: Vec<Failure>,
    /// The remaining job, or why NCCL can no longer start.
    pub left: Result<JobFigures, Error>,
    /// How much slower an all-reduce of each size gets, as a share of its speed; negative: faster.
    pub losses: Vec<Option<f64>>,
    /// How the plan differs from that of the whole job, if that was asked for.
    pub differences: Option<Vec<compare::PlanDifference>>,
}

impl EqualFailures {
    /// Orders failures: first those after which NCCL cannot start, then by the loss of the largest
    /// message, the largest loss first, then by that of smaller ones.
    pub fn worst_first(&self, other: &Self) -> Ordering {
        let losses = |row: &Self| -> Vec<f64> {
            let losses = row.losses.iter().rev();
            losses.map(|loss| loss.unwrap_or(f64::INFINITY)).collect()
        };
        let (own, others) = (losses(self), losses(other));
        let pairs = own.iter().zip(&others);
        let starts = self.left.is_ok().cmp(&other.left.is_ok());
        pairs.fold(starts, |order, (own, other)| {
            order.then(other.total_cmp(own))
        })
    }
}

/// The effect of one failure on a job.
#[derive(Debug)]
pub enum FailureOutcome {
    /// Something else is left than after the failures before.
    New(Box<EqualFailures>),
    /// The same is left as in the `n`th [`FailureOutcome::New`], counted from 0.
    Known(usize, Failure),
}

/// Plans a job once for each failure of its first host.
#[derive(Debug)]
pub struct WhatIf {
    job: Job,
    settings: Settings,
    sizes: Vec<u64>,
    whole: JobFigures,
    plan: Option<Plan>,
    failures: std::vec::IntoIter<Failure>,
    known: Vec<(Failure, Result<JobFigures, Error>)>,
}

impl WhatIf {
    /// Prepares planning without each of the failures, once `whole` is the job without any.
    /// `differences`: also compare the plans.
    pub fn new(
        job: Job,
        whole: &Planned,
        failures: Vec<Failure>,
        sizes: Vec<u64>,
        differences: bool,
    ) -> Self {
        Self {
            settings: (*whole.settings).clone(),
            whole: JobFigures::of(whole, &sizes),
            plan: differences.then(|| whole.plan().clone()),
            failures: failures.into_iter(),
            known: Vec::new(),
            sizes,
            job,
        }
    }

    fn without(&self, failure: &Failure) -> Result<Planned, Error> {
        let mut job = self.job.clone();
        job.edit(&failure.edit)?;
        plan(&job, &self.settings)
    }

    fn losses(&self, left: &Result<JobFigures, Error>) -> Vec<Option<f64>> {
        let Ok(left) = left else {
            return vec![None; self.whole.times.len()];
        };
        let loss = |(before, after): (&Option<f32>, &Option<f32>)| {
            let (before, after) = (f64::from((*before)?), f64::from((*after)?));
            Some(if after > 0.0 {
                1.0 - before / after
            } else {
                0.0
            })
        };
        self.whole.times.iter().zip(&left.times).map(loss).collect()
    }
}

impl Iterator for WhatIf {
    type Item = Result<FailureOutcome, plan::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut failure = self.failures.next()?;
        if self.job.host_count() > 1 {
            failure.edit = failure.edit.on_host(Some(0));
        }
        let planned = self.without(&failure);
        let left = match &planned {
            Ok(planned) => Ok(JobFigures::of(planned, &self.sizes)),
            Err(error) => Err(error.clone()),
        };
        let known = self.known.iter().position(|(before, left_before)| {
            *left_before == left && (before.kind, before.of) == (failure.kind, failure.of)
        });
        if let Some(known) = known {
            return Some(Ok(FailureOutcome::Known(known, failure)));
        }
        self.known.push((failure.clone(), left.clone()));
        let differences = match (&self.plan, &planned) {
            (Some(whole), Ok(planned)) => {
                match compare::compare(whole, planned.plan(), &self.sizes) {
                    Ok(compared) => Some(compared.facts),
                    Err(error) => return Some(Err(error)),
                }
            }
            _ => None,
        };
        Some(Ok(FailureOutcome::New(Box::new(EqualFailures {
            losses: self.losses(&left),
            failures: vec![failure],
            left,
            differences,
        }))))
    }
}
