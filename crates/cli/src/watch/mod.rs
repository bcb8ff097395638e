//! `topo watch`: the state of a living job, by polls of NCCL's RAS.

mod outcome;
mod socket;

use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use answers::report::{self, Report};
use anyhow::Result;
use diagnose::watch::{Limits, Polled, Situation, State, Watch};
use records::evidence::ras::{ReportError, answer};
use serde::Serialize;

use crate::JsonSchema;
use crate::arguments::compare::TextOrJson;
use crate::arguments::watch::WatchArguments;
use crate::environment::Environment;
use crate::exit;
use crate::output::Output;
use crate::progress::Line;
use outcome::Outcome;
use socket::Said;

/// How often a line of JSON comes although nothing changes, and the file for Prometheus is
/// written.
const PERIOD: Duration = Duration::from_secs(60);
const FILE_PERIOD: Duration = Duration::from_secs(15);

/// How long processes may take to end after the first one.
const ENDING: Duration = Duration::from_secs(20);

/// The rest behind a byte: reading 1 MB takes about 10 ms, so polls take at most 1 % of a core.
const REST: Duration = Duration::from_micros(1);

/// A line of JSON.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WatchLine<'a> {
    /// Seconds since 1970.
    time: f64,
    /// Seconds since the watch began.
    elapsed_s: f64,
    #[serde(flatten)]
    situation: &'a Situation,
    /// It hangs, or ranks are gone for good.
    verdict: bool,
    /// Polls so far.
    polls: u64,
    /// Polls that were answered.
    answers: u64,
}

impl Report for WatchLine<'_> {
    const FORMAT: &'static str = "topo-watch";
    const VERSION: u32 = 1;
}

impl<'a> WatchLine<'a> {
    fn line(
        situation: &'a Situation,
        elapsed: Duration,
        [polls, answers]: [u64; 2],
    ) -> Result<String> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let told = Self {
            time: now.unwrap_or_default().as_secs_f64(),
            elapsed_s: elapsed.as_secs_f64(),
            situation,
            verdict: situation.is_verdict(),
            polls,
            answers,
        };
        Ok(report::line(&told)? + "\n")
    }
}

pub(crate) fn run(
    arguments: &WatchArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let hosts = hosts(arguments, environment)?;
    let mut outcome = Outcome::new(arguments)?;
    let mut watch = Watch::new(Limits {
        pause: Duration::from_secs(arguments.hang_after),
        period: Duration::from_secs(arguments.interval) * u32::try_from(hosts.len()).unwrap_or(1),
    });
    let mut line = Line::new(environment);
    let began = Instant::now();
    let limit = arguments.time_limit.map(Duration::from_secs);
    let is_json = arguments.form.format() == TextOrJson::Json;
    let mut last: Option<(Situation, Duration)> = None;
    let (mut polls, mut answers, mut has_moved) = (0, 0, false);
    for (host, addresses) in hosts.iter().cycle() {
        let asked = Instant::now();
        let said = socket::ask(addresses);
        polls += 1;
        let mut rest = Duration::from_secs(arguments.interval);
        let polled = match said {
            Said::Refused => Polled::Refused,
            Said::Silent => Polled::Silent,
            Said::Bytes(bytes) => match answer::read(&bytes) {
                Ok(answer) => {
                    answers += 1;
                    rest = rest.max(REST * u32::try_from(bytes.len()).unwrap_or(u32::MAX));
                    outcome.keep(bytes);
                    Polled::Answer(answer)
                }
                Err(ReportError::Absent) => Polled::Silent,
                Err(why) => Polled::Unreadable(why.to_string()),
            },
        };
        let elapsed = began.elapsed();
        watch.take(elapsed, host, polled);
        let situation = watch.situation();
        has_moved |= situation.state == State::Moves;
        let is_over = situation.ended || limit.is_some_and(|it| elapsed >= it);
        let is_new = !last.as_ref().is_some_and(|it| it.0.is_as(&situation));
        let period = last.as_ref().map(|it| elapsed - it.1);
        let is_due = is_json && period.is_some_and(|it| it >= PERIOD);
        let is_told = situation.is_verdict() && !outcome.is_told;
        line.clear();
        if is_new || is_over || is_due || is_told {
            output.text = match is_json {
                true => WatchLine::line(&situation, elapsed, [polls, answers])?,
                false => format!("{:>6} s  {}\n", elapsed.as_secs(), situation.line()),
            };
            exit::print_now(output)?;
            last = Some((situation.clone(), elapsed));
        }
        if is_told {
            outcome.tell(&situation, is_json, environment, output)?;
        }
        let is_written = is_new || is_over || is_told;
        outcome.file(&situation, [polls, answers], is_written, output);
        if situation.state == State::Moves {
            outcome.is_told = false;
        }
        if is_over || is_told && arguments.hook.is_none() {
            break;
        }
        line.show(&situation.line());
        let rest = rest.saturating_sub(asked.elapsed());
        let left = limit.map_or(rest, |it| it.saturating_sub(began.elapsed()));
        thread::sleep(rest.min(left));
    }
    output.differs = outcome.has_told;
    if let Some((last, _)) = last.filter(|_| !outcome.has_told) {
        let is_well = last.state == State::Moves || last.ended && last.state == State::Unknown;
        output.unknown = match (has_moved && is_well, last.ended) {
            (false, _) => {
                let line = last.line();
                Some(line.strip_prefix("unknown: ").unwrap_or(&line).to_owned())
            }
            (true, true) => left_alone(&watch, &hosts),
            (true, false) => None,
        };
    }
    Ok(())
}

/// Why a job may not have ended although nobody listens: one process of a host listens, and others
/// may be left when it dies.
fn left_alone(watch: &Watch, hosts: &[(String, Vec<SocketAddr>)]) -> Option<String> {
    let is_here = |it: &SocketAddr| it.ip().is_loopback();
    let is_here = hosts
        .iter()
        .all(|(_, addresses)| addresses.iter().all(is_here));
    if !is_here {
        let why = "nobody listens any more: the job ended, or the processes that listened died; \
                   whether others are left, ask on their hosts";
        return (!watch.was_ending()).then(|| why.to_owned());
    }
    let lives = |it: &&(String, u64)| Path::new(&format!("/proc/{}", it.1)).exists();
    let left = || watch.processes().filter(lives).map(|it| it.1.to_string());
    // Processes of a job do not end at once.
    let began = Instant::now();
    while left().next().is_some() && began.elapsed() < ENDING {
        thread::sleep(Duration::from_millis(200));
    }
    let left: Vec<String> = left().collect();
    (!left.is_empty()).then(|| {
        let left = left.join(", ");
        format!("nobody listens any more, but processes of the job are left: {left}")
    })
}

/// The hosts with their addresses.
fn hosts(
    arguments: &WatchArguments,
    environment: &Environment,
) -> Result<Vec<(String, Vec<SocketAddr>)>> {
    let mut names = arguments.hosts.clone();
    if names.is_empty() {
        let own = environment.nccl.iter().find(|it| it.0 == "NCCL_RAS_ADDR");
        // It may listen on all addresses, of which this host has one.
        let own = own.map(|it| it.1.replace("0.0.0.0:", "127.0.0.1:"));
        names.push(own.unwrap_or_else(|| "127.0.0.1".to_owned()));
    }
    let found = names.into_iter().map(|host| {
        let addresses = socket::addresses(&host, arguments.port)?;
        Ok((host, addresses))
    });
    found.collect()
}
