//! The rest of a job after each single failure of its first host.
//!
//! In reading order: this file, [`json`].

pub mod json;

use bounds::optimum;
use plan::certificate::Operation;
use planner::what_if::{EqualFailures, FailureOutcome, JobFigures, WhatIf};
use planner::{Job, Planned, Settings};
use topology::edit::{Failure, FailureKind, failures};

pub use json::WhatIfReport;

/// Which failures of a job to plan.
#[derive(Debug, Clone)]
pub struct WhatIfQuestion {
    /// The job.
    pub job: Job,
    /// NCCL's settings.
    pub settings: Settings,
    /// Sizes of all-reduces, bytes.
    pub sizes: Vec<u64>,
    /// The failures.
    pub failures: Vec<Failure>,
    /// Whether every difference of the plans is wanted.
    pub differences: bool,
}

/// The most that any schedule of each operation reaches, GB/s of bus bandwidth; of several failures
/// the least. Empty where NCCL cannot start.
pub type RowBounds = Vec<(Operation, f64)>;

/// A job, and what is left of it.
#[derive(Debug)]
pub struct WhatIfAnswer {
    /// The job without any failure.
    pub job: Planned,
    /// Sizes of all-reduces, bytes.
    pub sizes: Vec<u64>,
    /// The job without any failure, in figures.
    pub whole: JobFigures,
    /// The failures: in the order in which they were planned, in the end worst first.
    pub rows: Vec<EqualFailures>,
    /// The most that any schedule reaches: without a failure, then for each of `rows`, if that was
    /// asked for.
    pub bounds: Option<(RowBounds, Vec<RowBounds>)>,
    /// Failures that were not planned.
    pub left_out: Vec<Failure>,
}

/// The failures of these kinds of a job's first host; no kind: of all.
pub fn failures_of(job: &Job, kinds: &[FailureKind]) -> Vec<Failure> {
    let first = job.hosts.first();
    let mut all = first.map_or_else(Vec::new, |first| failures(&first.document));
    all.retain(|failure| kinds.is_empty() || kinds.contains(&failure.kind));
    all
}

impl WhatIfQuestion {
    /// The answer before any failure is planned, and the plans of the job after each, one per step
    /// of the iterator, so that the caller decides how long that may take.
    ///
    /// # Errors
    /// The job cannot be planned.
    pub fn begin(self) -> Result<(WhatIfAnswer, WhatIf), planner::Error> {
        let job = planner::plan(&self.job, &self.settings)?;
        let (left_out, sizes) = (self.failures.clone(), self.sizes.clone());
        let outcomes = WhatIf::new(self.job, &job, self.failures, self.sizes, self.differences);
        let answer = WhatIfAnswer {
            whole: JobFigures::of(&job, &sizes),
            job,
            sizes,
            rows: Vec::new(),
            bounds: None,
            left_out,
        };
        Ok((answer, outcomes))
    }
}

impl WhatIfAnswer {
    /// Takes the outcome of the first failure that was left out, before [`Self::finish`].
    pub fn add(&mut self, outcome: FailureOutcome) {
        if self.left_out.is_empty() {
            return;
        }
        self.left_out.remove(0);
        match outcome {
            FailureOutcome::New(row) => self.rows.push(*row),
            FailureOutcome::Known(row, failure) => self.rows[row].failures.push(failure),
        }
    }

    /// Orders the rows, worst first, and finds their bounds in `job`, if there is one.
    pub fn finish(&mut self, job: Option<&Job>) {
        self.rows.sort_by(EqualFailures::worst_first);
        self.bounds = job.map(|job| {
            let rows = self.rows.iter();
            let rows = rows.map(|row| bounds_after(row, job, &self.job.settings));
            (bounds_of(&self.job), rows.collect())
        });
    }
}

/// The most that any schedule reaches after failures after which NCCL's plan is the same: for each
/// operation the least.
fn bounds_after(row: &EqualFailures, job: &Job, settings: &Settings) -> RowBounds {
    let mut least = RowBounds::new();
    for failure in &row.failures {
        let mut job = job.clone();
        let planned = job
            .edit(&failure.edit)
            .and_then(|()| planner::plan(&job, settings));
        let Ok(planned) = planned else {
            return RowBounds::new();
        };
        for (operation, bound) in bounds_of(&planned) {
            match least.iter_mut().find(|(known, _)| *known == operation) {
                Some((_, known)) => *known = known.min(bound),
                None => least.push((operation, bound)),
            }
        }
    }
    least
}

fn bounds_of(planned: &Planned) -> RowBounds {
    let all = optimum::of(planned);
    all.iter().map(|it| (it.operation, it.bound)).collect()
}
