//! Planning a job without one part after the other. A thread of its own does it, so that a time limit ends it wherever it
//! is: one plan of an odd machine can take seconds.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use plan::{GraphKind, compare};
use planner::Settings;
use planner::cost::Profile;
use program::Collective;
use topology::edit::{Edit, Failure};

use super::{Figures, Row};
use crate::arguments::JobArguments;
use crate::edits;
use crate::environment::Environment;
use crate::input::Machine;
use crate::job::Job;
use crate::output::Output;
use crate::progress::Progress;

/// Stack of the thread, bytes: more than a process's first thread usually has.
const STACK: usize = 16 << 20;

/// Results that wait to be taken.
const WAITING: usize = 16;

/// What is to be planned.
#[derive(Debug)]
pub struct Asked {
    /// The machines, each with how many in a row.
    pub hosts: Vec<(Machine, u32)>,
    /// The job.
    pub arguments: JobArguments,
    /// NCCL's settings.
    pub settings: Settings,
    /// Sizes of all-reduces, bytes.
    pub sizes: Vec<u64>,
    /// The failures.
    pub failures: Vec<Failure>,
    /// Whether every difference of the plans is wanted.
    pub differences: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct Done {
    /// The job without any failure.
    pub job: Job,
    /// The same in figures.
    pub whole: Figures,
    /// Failures, in the order in which they were looked at.
    pub rows: Vec<Row>,
    /// Those that were not looked at.
    pub left_out: Vec<Failure>,
}

/// What the thread says.
enum News {
    /// The job without any failure.
    Whole(Box<(Job, Figures)>, Vec<String>),
    /// A failure after which something else is left than after those before.
    Other(Box<Row>),
    /// One after which the same is left as in the row of this number.
    Same(usize, Failure),
}

/// Plans everything, or as much as there is time for.
///
/// # Errors
/// The job cannot be planned, or not within the time limit.
pub fn work(
    asked: Asked,
    limit: Option<Duration>,
    environment: &Environment,
    output: &mut Output,
) -> Result<Done> {
    let until = limit.map(|limit| Instant::now() + limit);
    let progress = Progress::new(environment, "planning");
    let all = asked.failures.clone();
    // The thread is never much ahead, so that a progress that is shown is true.
    let (sender, news) = sync_channel(WAITING);
    let thread = thread::Builder::new().name("what-if".to_owned());
    let thread = thread
        .stack_size(STACK)
        .spawn(move || each(asked, &sender))
        .context("cannot start a thread")?;
    let mut whole = None;
    let mut rows: Vec<Row> = Vec::new();
    let mut looked_at = 0;
    let ended = loop {
        match next(&news, until) {
            Ok(News::Whole(job, warnings)) => {
                output.warnings.extend(warnings);
                whole = Some(*job);
            }
            Ok(News::Other(row)) => {
                looked_at += 1;
                rows.push(*row);
            }
            Ok(News::Same(row, failure)) => {
                looked_at += 1;
                rows[row].failures.push(failure);
            }
            Err(RecvTimeoutError::Timeout) => break false,
            Err(RecvTimeoutError::Disconnected) => break true,
        }
        progress.set(format!("{looked_at} of {} failures", all.len()));
    };
    drop(progress);
    if ended {
        // One that panicked takes this one with it.
        match thread.join() {
            Ok(done) => done?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    let seconds = limit.unwrap_or_default().as_secs();
    let Some((job, whole)) = whole else {
        bail!(
            "--time-limit {seconds}: the job as it is was not planned within {seconds} s; give it more time"
        );
    };
    let left_out = all[looked_at..].to_vec();
    if !left_out.is_empty() {
        output.warnings.push(format!(
            "--time-limit {seconds}: {} of {} failures were not looked at",
            left_out.len(),
            all.len()
        ));
    }
    Ok(Done {
        job,
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

/// Plans one failure after the other, while somebody hears of it.
fn each(asked: Asked, news: &SyncSender<News>) -> Result<()> {
    let Asked {
        hosts,
        arguments,
        settings,
        sizes,
        failures,
        differences,
    } = asked;
    let mut output = Output::default();
    let job = Job::of(
        hosts.clone(),
        &arguments,
        settings.clone(),
        &Profile::nccl_2_30(),
        &mut output,
    )?;
    let whole = figures(&job, &sizes);
    let artifact = differences.then(|| job.artifact());
    let told = Box::new((job, whole.clone()));
    if news.send(News::Whole(told, output.warnings)).is_err() {
        return Ok(());
    }
    let several = hosts.iter().map(|(_, copies)| copies).sum::<u32>() > 1;
    let mut known: Vec<(Failure, Result<Figures, String>)> = Vec::new();
    for mut failure in failures {
        if several {
            failure.edit = failure.edit.on_host(Some(0));
        }
        let failed = fail(&hosts, &failure.edit, &arguments, &settings);
        let left = match &failed {
            Ok(job) => Ok(figures(job, &sizes)),
            Err(error) => Err(format!("{error:#}")),
        };
        let same = known.iter().position(|(before, left_before)| {
            *left_before == left && (before.kind, before.of) == (failure.kind, failure.of)
        });
        let told = match same {
            Some(row) => News::Same(row, failure),
            None => {
                known.push((failure.clone(), left.clone()));
                let differences = match (&artifact, &failed) {
                    (Some(whole), Ok(job)) => {
                        let compared = compare::compare(whole, &job.artifact(), &sizes)?;
                        Some(serde_json::to_value(&compared.facts)?)
                    }
                    _ => None,
                };
                News::Other(Box::new(Row {
                    losses: losses(&whole, &left),
                    failures: vec![failure],
                    left,
                    differences,
                }))
            }
        };
        if news.send(told).is_err() {
            break;
        }
    }
    Ok(())
}

/// The job after a failure.
fn fail(
    hosts: &[(Machine, u32)],
    edit: &Edit,
    arguments: &JobArguments,
    settings: &Settings,
) -> Result<Job> {
    let hosts = edits::apply(hosts.to_vec(), std::slice::from_ref(edit))?;
    // What is odd about the file was said of the whole machine.
    let mut said = Output::default();
    Job::of(
        hosts,
        arguments,
        settings.clone(),
        &Profile::nccl_2_30(),
        &mut said,
    )
}

fn figures(job: &Job, sizes: &[u64]) -> Figures {
    let joined = &job.joined;
    let costs = job.costs.clone();
    let ring = joined.facts.graph(GraphKind::Ring);
    let each = if joined.layout().nodes() > 1 {
        ring.bw_intra.min(ring.bw_inter)
    } else {
        ring.bw_intra
    };
    let time = |bytes: &u64| {
        let choice = costs.choose(Collective::AllReduce, *bytes).ok()?;
        Some(choice.time_us)
    };
    Figures {
        ranks: joined.layout().ranks(),
        channels: joined.common().channels.count(),
        rings: (ring.channels, each),
        times: sizes.iter().map(time).collect(),
        graphs: joined.common().graphs.clone(),
        costs,
    }
}

fn losses(whole: &Figures, left: &Result<Figures, String>) -> Vec<Option<f64>> {
    let Ok(left) = left else {
        return vec![None; whole.times.len()];
    };
    let loss = |(before, after): (&Option<f32>, &Option<f32>)| {
        let (before, after) = (f64::from((*before)?), f64::from((*after)?));
        Some(if after > 0.0 {
            1.0 - before / after
        } else {
            0.0
        })
    };
    whole.times.iter().zip(&left.times).map(loss).collect()
}
