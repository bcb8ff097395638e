//! Planning a job without one part after the other, within a time limit. A thread of its own plans,
//! because a single plan of an odd machine can take seconds.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use planner::what_if::{EqualFailures, FailureOutcome, WhatIf};
use planner::{Job, Planned, Settings};
use topology::edit::Failure;

use crate::environment::Environment;
use crate::job::plan_job;
use crate::output::Output;
use crate::progress::Progress;

/// Stack of the thread, bytes: more than a process's first thread usually has.
const STACK: usize = 16 << 20;

/// Most results that the thread is ahead, so that the progress shown is true.
const WAITING: usize = 16;

/// What is to be planned.
#[derive(Debug)]
pub struct WhatIfRequest {
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

/// What was planned.
#[derive(Debug)]
pub struct Done {
    /// The job without any failure.
    pub whole: Planned,
    /// Failures, in the order in which they were planned.
    pub rows: Vec<EqualFailures>,
    /// Failures for which there was no time.
    pub left_out: Vec<Failure>,
}

/// What the thread reports.
enum News {
    /// The job without any failure, and warnings.
    Whole(Box<Planned>, Vec<String>),
    /// What one failure does.
    Failed(FailureOutcome),
}

/// Plans everything, or as much as there is time for.
///
/// # Errors
/// The job cannot be planned, or not within the time limit.
pub fn work(
    asked: WhatIfRequest,
    limit: Option<Duration>,
    environment: &Environment,
    output: &mut Output,
) -> Result<Done> {
    let until = limit.map(|limit| Instant::now() + limit);
    let progress = Progress::new(environment, "planning");
    let all = asked.failures.clone();
    let (sender, news) = sync_channel(WAITING);
    let thread = thread::Builder::new().name("what-if".to_owned());
    let thread = thread
        .stack_size(STACK)
        .spawn(move || each(asked, &sender))
        .context("cannot start a thread")?;
    let mut whole = None;
    let mut rows: Vec<EqualFailures> = Vec::new();
    let mut planned = 0;
    let ended = loop {
        match next(&news, until) {
            Ok(News::Whole(job, warnings)) => {
                output.warnings.extend(warnings);
                whole = Some(*job);
            }
            Ok(News::Failed(outcome)) => {
                planned += 1;
                match outcome {
                    FailureOutcome::New(row) => rows.push(*row),
                    FailureOutcome::Known(row, failure) => rows[row].failures.push(failure),
                }
            }
            Err(RecvTimeoutError::Timeout) => break false,
            Err(RecvTimeoutError::Disconnected) => break true,
        }
        progress.set(format!("{planned} of {} failures", all.len()));
    };
    drop(progress);
    if ended {
        match thread.join() {
            Ok(done) => done?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    let seconds = limit.unwrap_or_default().as_secs();
    let Some(whole) = whole else {
        bail!(
            "--time-limit {seconds}: the job as it is was not planned within {seconds} s; give it more time"
        );
    };
    let left_out = all[planned..].to_vec();
    if !left_out.is_empty() {
        output.warnings.push(format!(
            "--time-limit {seconds}: {} of {} failures were not looked at",
            left_out.len(),
            all.len()
        ));
    }
    Ok(Done {
        whole,
        rows,
        left_out,
    })
}

fn next(news: &Receiver<News>, until: Option<Instant>) -> Result<News, RecvTimeoutError> {
    match until {
        Some(until) => news.recv_timeout(until.saturating_duration_since(Instant::now())),
        None => news.recv().map_err(|_| RecvTimeoutError::Disconnected),
    }
}

/// Plans one failure after the other, until nobody receives the results.
fn each(asked: WhatIfRequest, news: &SyncSender<News>) -> Result<()> {
    let mut output = Output::default();
    let whole = plan_job(&asked.job, &asked.settings, &mut output)?;
    let outcomes = WhatIf::new(
        asked.job,
        &whole,
        asked.failures,
        asked.sizes,
        asked.differences,
    );
    if news
        .send(News::Whole(Box::new(whole), output.warnings))
        .is_err()
    {
        return Ok(());
    }
    for outcome in outcomes {
        if news.send(News::Failed(outcome?)).is_err() {
            break;
        }
    }
    Ok(())
}
