//! Planning a job without one part after the other, within a time limit. A thread of its own plans,
//! because a single plan of an odd machine can take seconds.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use answers::what_if::{PlannedFailures, WhatIfQuestion};
use anyhow::{Context, Result, bail};
use planner::what_if::FailureOutcome;
use planner::{Job, Settings};

use crate::environment::Environment;
use crate::output::Output;
use crate::progress::Progress;

/// Stack of the thread, bytes: more than a process's first thread usually has.
const STACK: usize = 16 << 20;

/// Most results that the thread is ahead, so that the progress shown is true.
const WAITING: usize = 16;

/// What the thread plans.
pub(super) struct Asked {
    pub question: WhatIfQuestion,
    pub job: Job,
    pub settings: Settings,
    /// Whether every difference of the plans is wanted.
    pub differences: bool,
}

/// A report of the thread.
enum News {
    /// The job without any failure.
    Whole(Box<PlannedFailures>),
    /// The effect of one failure.
    Failed(FailureOutcome),
}

/// Plans everything, or as much as there is time for.
///
/// # Errors
/// The job cannot be planned, or not within the time limit.
pub(super) fn work(
    asked: Asked,
    limit: Option<Duration>,
    environment: &Environment,
    output: &mut Output,
) -> Result<PlannedFailures> {
    let until = limit.map(|limit| Instant::now() + limit);
    let progress = Progress::new(environment, "planning");
    let all = asked.question.failures(&asked.job).len();
    let (sender, news) = sync_channel(WAITING);
    let thread = thread::Builder::new().name("what-if".to_owned());
    let thread = thread
        .stack_size(STACK)
        .spawn(move || each(asked, &sender))
        .context("cannot start a thread")?;
    let mut answer: Option<Box<PlannedFailures>> = None;
    let ended = loop {
        match (next(&news, until), &mut answer) {
            (Ok(News::Whole(whole)), _) => {
                let notes = whole.job.notes.iter().map(ToString::to_string);
                output.warnings.extend(notes);
                answer = Some(whole);
            }
            (Ok(News::Failed(outcome)), Some(answer)) => answer.add(outcome),
            (Ok(News::Failed(_)), None) => {}
            (Err(RecvTimeoutError::Timeout), _) => break false,
            (Err(RecvTimeoutError::Disconnected), _) => break true,
        }
        let left = answer.as_ref().map_or(all, |answer| answer.left_out.len());
        progress.set(format!("{} of {all} failures", all - left));
    };
    drop(progress);
    if ended {
        match thread.join() {
            Ok(done) => done?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    let seconds = limit.unwrap_or_default().as_secs();
    let Some(answer) = answer else {
        bail!(
            "--time-limit {seconds}: the job as it is was not planned within {seconds} s; give it more time"
        );
    };
    let left = answer.left_out.len();
    if left > 0 {
        output.warnings.push(format!(
            "--time-limit {seconds}: {left} of {all} failures were not looked at"
        ));
    }
    Ok(*answer)
}

fn next(news: &Receiver<News>, until: Option<Instant>) -> Result<News, RecvTimeoutError> {
    match until {
        Some(until) => news.recv_timeout(until.saturating_duration_since(Instant::now())),
        None => news.recv().map_err(|_| RecvTimeoutError::Disconnected),
    }
}

/// Plans one failure after the other, until nobody receives the results.
fn each(asked: Asked, news: &SyncSender<News>) -> Result<()> {
    let question = &asked.question;
    let (answer, outcomes) = question.begin(asked.job, &asked.settings, asked.differences)?;
    if news.send(News::Whole(Box::new(answer))).is_err() {
        return Ok(());
    }
    for outcome in outcomes {
        if news.send(News::Failed(outcome?)).is_err() {
            break;
        }
    }
    Ok(())
}
