//! What is left of a job after each failure.

use plan::certificate::Operation;
use planner::Planned;
use planner::what_if::{EqualFailures, JobFigures};
use topology::edit::Failure;

/// Everything that the page says.
#[derive(Debug)]
pub struct WhatIfReport {
    /// The job without any failure.
    pub job: Planned,
    /// Sizes of all-reduces, bytes.
    pub sizes: Vec<u64>,
    /// The job without any failure, in figures.
    pub whole: JobFigures,
    /// The failures, worst first.
    pub rows: Vec<EqualFailures>,
    /// The most that any schedule reaches: without a failure, then for each of `rows`, if that was
    /// asked for.
    pub bounds: Option<(RowBounds, Vec<RowBounds>)>,
    /// Failures for which there was no time.
    pub left_out: Vec<Failure>,
    /// Time limit, s.
    pub time_limit: Option<u64>,
}

/// The most that any schedule of each operation reaches, GB/s of bus bandwidth; of several failures
/// the least. None where NCCL cannot start.
pub type RowBounds = Vec<(Operation, f64)>;
