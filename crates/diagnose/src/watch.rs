//! The state of a living job, by answers of NCCL's RAS one after the other.
//!
//! ```
//! use std::time::Duration;
//! use diagnose::watch::{Limits, Polled, State, Watch};
//!
//! let mut watch = Watch::new(Limits::default());
//! watch.take(Duration::from_secs(1), "node1", Polled::Refused);
//! assert_eq!(watch.situation().state, State::Unknown);
//! ```
//!
//! Counts rise when a rank launches, and never fall: if an answer shows the counts of an earlier
//! one, nothing moved between the two, whatever other processes answered meanwhile. Ranks that
//! launched as much as the others and stand still may rest, or hang: that is unknown, never well.

mod group;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use records::evidence::ras::Rank;
use records::evidence::ras::answer::Answer;
use serde::{Serialize, Serializer};

use crate::JsonSchema;

use group::{Group, Judged};

/// For how long counts stand before a job waits, and ranks are silent before they are gone: 5 s
/// gave alarms in recordings of healthy jobs, 10 s none.
const STILL: Duration = Duration::from_secs(10);

/// How long a rank is gone before that is a verdict: processes that were stopped for 18 s
/// continued.
const GONE: Duration = Duration::from_secs(30);

/// For how long a communicator or a job may be absent from answers: other processes answer.
const ABSENT: Duration = Duration::from_secs(5);
const FORGOTTEN: Duration = Duration::from_secs(60);

/// Refused polls behind the last answer after which the job has ended.
const REFUSALS: u32 = 3;

/// Most jobs, and most communicators of each.
const MOST_JOBS: usize = 16;
const MOST_GROUPS: usize = 1 << 12;

/// What tells more where RAS cannot.
const ASK: [&str; 3] = [
    "PyTorch's flight recorders of all ranks (TORCH_FR_BUFFER_SIZE=2000 before the start)",
    "py-spy of each process: in which line it is",
    "NCCL's Inspector (NCCL_PROFILER_PLUGIN), which writes what completed",
];

/// How long things may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The longest pause in which some ranks wait for others.
    pub pause: Duration,
    /// From one poll of an address to the next.
    pub period: Duration,
}

impl Limits {
    /// A time, or two polls if these take longer.
    fn at_least(&self, time: Duration) -> Duration {
        time.max(self.period * 2 + self.period / 2)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            pause: Duration::from_secs(60),
            period: Duration::from_secs(1),
        }
    }
}

/// What became of a poll.
#[derive(Debug)]
pub enum Polled {
    /// An answer.
    Answer(Answer),
    /// Nobody listens.
    Refused,
    /// Someone may listen, but does not answer: a stopped process, or a host that is gone.
    Silent,
    /// An answer that cannot be read; why.
    Unreadable(String),
}

/// The state of a job, from good to bad but for `Unknown`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It cannot be told: equal counts that stand still, set-up, nobody answers.
    Unknown,
    /// Ranks launch operations.
    Moves,
    /// Counts of a communicator differ, and none has moved for 10 s.
    Waits,
    /// Processes do not answer, and the others stand still.
    Gone,
    /// It waits for longer than the longest pause that was given, or that it has shown.
    Hang,
}

impl State {
    /// All states.
    pub const ALL: [Self; 5] = [
        Self::Moves,
        Self::Waits,
        Self::Gone,
        Self::Hang,
        Self::Unknown,
    ];

    /// Its word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Moves => "moves",
            Self::Waits => "waits",
            Self::Gone => "gone",
            Self::Hang => "hang",
        }
    }
}

/// A rank that others wait for, or that is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Awaited {
    /// Its rank in the largest communicator that has it, if one rank only there can be it.
    pub rank: u32,
    /// Its host, as RAS names it.
    pub host: String,
    /// Its process.
    pub process: u64,
    /// Its GPU in the process, if RAS says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u32>,
    /// The communicator's hash.
    pub communicator: String,
    /// Its rank there.
    pub rank_there: u32,
}

/// What is known of a job at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Situation {
    /// The state.
    pub state: State,
    /// For how long, in whole seconds, by the polls.
    #[serde(rename = "since_s", serialize_with = "seconds")]
    #[schemars(with = "u64")]
    pub since: Duration,
    /// The ranks that others wait for, or that are gone; empty if RAS names none.
    pub ranks: Vec<Awaited>,
    /// What was seen: a sentence.
    pub what: String,
    /// What would tell more.
    pub ask: Vec<&'static str>,
    /// Jobs that answered in the last minute; the one with the worst state is told.
    pub jobs: usize,
    /// The job has ended: nobody listens any more.
    pub ended: bool,
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(time.as_secs())
}

impl Situation {
    /// Whether people should be told: the job hangs, or ranks are gone for good.
    pub fn is_verdict(&self) -> bool {
        self.state == State::Hang || (self.state == State::Gone && self.since >= GONE)
    }

    /// The same state, of the same ranks; if unknown, for the same reason.
    pub fn is_as(&self, other: &Self) -> bool {
        let reason = |it: &Self| it.what.replace(|it: char| it.is_ascii_digit(), "");
        let is_same = self.state != State::Unknown || reason(self) == reason(other);
        is_same
            && self.state == other.state
            && self.ranks == other.ranks
            && self.ended == other.ended
    }

    /// The line of a terminal or a log.
    pub fn line(&self) -> String {
        let (word, since) = (self.state.word(), self.since.as_secs());
        let jobs = match self.jobs {
            0 | 1 => String::new(),
            jobs => format!(" ({jobs} jobs answer here; this one is worst off)"),
        };
        let ended = if self.ended { "ended; before: " } else { "" };
        match self.state {
            State::Moves | State::Unknown => format!("{ended}{word}: {}{jobs}", self.what),
            _ => format!("{ended}{word} since {since} s: {}{jobs}", self.what),
        }
    }
}

/// A job: the communicators that were answered together.
#[derive(Debug, Default)]
struct Job {
    groups: BTreeMap<String, Group>,
    processes: BTreeSet<(String, u64)>,
    seen: Duration,
    is_text: bool,
    /// By text, its hosts and the ranks of each.
    hosts: u64,
    ranks_per_host: u64,
}

/// What was polled so far.
#[derive(Debug)]
pub struct Watch {
    limits: Limits,
    jobs: Vec<Job>,
    /// By address whether the last poll was refused.
    refused: BTreeMap<String, bool>,
    refusals: u32,
    now: Duration,
    answered: Option<Duration>,
    /// Why the last answer cannot be read.
    unreadable: Option<String>,
    /// The last situation before all refused.
    before: Option<Situation>,
}

impl Watch {
    /// Nothing was polled yet.
    pub const fn new(limits: Limits) -> Self {
        Self {
            limits,
            jobs: Vec::new(),
            refused: BTreeMap::new(),
            refusals: 0,
            now: Duration::ZERO,
            answered: None,
            unreadable: None,
            before: None,
        }
    }

    /// Takes what became of a poll of an address, at a time since the start.
    pub fn take(&mut self, at: Duration, from: &str, polled: Polled) {
        self.now = self.now.max(at);
        let is_refused = matches!(polled, Polled::Refused);
        self.refused.insert(from.to_owned(), is_refused);
        match polled {
            Polled::Answer(answer) => {
                (self.refusals, self.before, self.unreadable) = (0, None, None);
                self.answered = Some(self.now);
                if answer.all > 0 || !answer.communicators.is_empty() {
                    self.answer(&answer);
                }
            }
            Polled::Refused => {
                if self.before.is_none() {
                    self.before = Some(self.situation());
                }
                self.refusals += 1;
            }
            Polled::Silent => self.refusals = 0,
            Polled::Unreadable(why) => (self.refusals, self.unreadable) = (0, Some(why)),
        }
        let answered = self.answered.unwrap_or_default();
        let forgotten = self.limits.at_least(FORGOTTEN);
        self.jobs.retain(|it| answered - it.seen < forgotten);
    }

    /// Takes an answer, which has all communicators of one job.
    fn answer(&mut self, answer: &Answer) {
        let now = self.now;
        let members = answer.communicators.iter().flat_map(|it| {
            let launched = it.launched.iter().filter_map(|it| it.rank.as_ref());
            launched.chain(it.missing.iter().map(|it| &it.rank))
        });
        let processes = members.map(|it| (it.host.clone(), it.process));
        let processes: BTreeSet<(String, u64)> = processes.collect();
        // Text names too little to tell jobs apart: it is one job.
        let is_it = |job: &Job| match answer.is_text {
            true => job.is_text,
            false => {
                let is_known = |name| job.groups.contains_key(name);
                answer.communicators.iter().any(|it| is_known(&it.name))
                    || !job.processes.is_disjoint(&processes)
            }
        };
        let place = self.jobs.iter().position(is_it).unwrap_or_else(|| {
            self.jobs.truncate(MOST_JOBS - 1);
            self.jobs.push(Job::default());
            self.jobs.len() - 1
        });
        let job = &mut self.jobs[place];
        job.seen = now;
        job.is_text = answer.is_text;
        job.hosts = job.hosts.max(answer.hosts);
        job.ranks_per_host = job.ranks_per_host.max(answer.ranks_per_host);
        let forgotten = self.limits.at_least(FORGOTTEN);
        job.groups.retain(|_, it| now - it.seen < forgotten);
        job.processes = processes;
        for communicator in &answer.communicators {
            if job.groups.len() < MOST_GROUPS || job.groups.contains_key(&communicator.name) {
                let group = job.groups.entry(communicator.name.clone());
                let group = group.or_insert_with(|| Group::new(communicator, now));
                group.take(communicator, now, answer.is_text);
            }
        }
    }

    /// The processes of the jobs that were last answered: host and process.
    pub fn processes(&self) -> impl Iterator<Item = &(String, u64)> {
        self.jobs.iter().flat_map(|it| &it.processes)
    }

    /// A rank was about to end a communicator when answers last came.
    pub fn was_ending(&self) -> bool {
        let mut groups = self.jobs.iter().flat_map(|it| it.groups.values());
        groups.any(|it| it.is_ending)
    }

    /// The job's state now.
    pub fn situation(&self) -> Situation {
        let all_refuse = !self.refused.is_empty() && self.refused.values().all(|it| *it);
        let has_ended = all_refuse && self.refusals >= REFUSALS.max(self.refused.len() as u32);
        if let (true, Some(_), Some(before)) = (has_ended, self.answered, &self.before) {
            let hosts = self.jobs.iter().map(Job::hosts).max().unwrap_or(0);
            let rest = match hosts > self.refused.len() {
                true => unknown(
                    "the job has ranks on hosts that are not watched",
                    &ASK[1..2],
                ),
                false => before.clone(),
            };
            return Situation {
                ended: true,
                ..if before.state > State::Waits {
                    before.clone()
                } else {
                    rest
                }
            };
        }
        let unreadable = (self.unreadable.as_ref())
            .map(|why| unknown(&format!("an answer cannot be read: {why}"), &[]));
        let Some(answered) = self.answered else {
            if let Some(unreadable) = unreadable {
                return unreadable;
            }
            return match all_refuse {
                true => unknown("nobody listens yet", &[]),
                false => unknown("no answer: stopped, or another program listens", &[]),
            };
        };
        // Others answer, so a job that does not is no more there.
        let still = self.limits.at_least(STILL);
        let jobs = self.jobs.iter().filter(|it| answered - it.seen < still);
        let told = jobs.clone().map(|it| it.situation(self.now, self.limits));
        let worst = told.max_by_key(|it| (it.state, it.since));
        let silence = self.now - answered;
        let worst = match worst {
            Some(worst) if worst.state > State::Waits || silence < GONE => worst,
            None if silence < GONE => {
                let what = "no communicators: they are being made, or were all destroyed";
                unknown(what, &ASK[1..2])
            }
            _ => unreadable.unwrap_or_else(|| {
                let what = format!("no answer for {} s", silence.as_secs());
                unknown(&what, &ASK[1..2])
            }),
        };
        Situation {
            jobs: jobs.count(),
            ..worst
        }
    }
}

fn unknown(what: &str, ask: &[&'static str]) -> Situation {
    Situation {
        state: State::Unknown,
        since: Duration::ZERO,
        ranks: Vec::new(),
        what: what.to_owned(),
        ask: ask.to_vec(),
        jobs: 0,
        ended: false,
    }
}

impl Job {
    /// The worst state of its communicators; it moves if one of them does.
    fn situation(&self, now: Duration, limits: Limits) -> Situation {
        let present = self
            .groups
            .values()
            .filter(|it| self.seen - it.seen < limits.at_least(ABSENT));
        let judged = present.map(|it| (it, it.judge(now, self, limits)));
        let judged: Vec<(&Group, Judged)> = judged.collect();
        let worst = judged.iter().max_by_key(|it| (it.1.state, it.1.since));
        let Some((_, worst)) = worst else {
            return unknown(
                "text of RAS, in which counts show only where they differ",
                &ASK,
            );
        };
        let alike = judged.iter().filter(|it| it.1.state == worst.state);
        let mut ranks: Vec<Awaited> = Vec::new();
        let mut what: Vec<&str> = Vec::new();
        for (group, judged) in alike {
            for rank in &judged.ranks {
                let is_it = |it: &Awaited| {
                    it.host == rank.host && it.process == rank.process && it.device == rank.device
                };
                if !ranks.iter().any(is_it) {
                    ranks.push(self.awaited(group, rank));
                }
            }
            // A sentence for each wait; other states have the same for all.
            if what.len() < 3 && !what.contains(&judged.what.as_str()) {
                what.push(&judged.what);
            }
            if !matches!(worst.state, State::Waits | State::Hang) {
                what = vec![&worst.what];
            }
        }
        ranks.sort_by(|a, b| (a.rank, &a.host).cmp(&(b.rank, &b.host)));
        let named = ranks.iter().take(8).map(|it| {
            let there = match it.rank == it.rank_there {
                true => String::new(),
                false => format!(", rank {} there", it.rank_there),
            };
            let (rank, host, process) = (it.rank, &it.host, it.process);
            format!("rank {rank} of host {host} (process {process}{there})")
        });
        let mut who = named.collect::<Vec<_>>().join(", ");
        if ranks.len() > 8 {
            who += &format!(" and {} more", ranks.len() - 8);
        }
        let what = what.join("; ");
        Situation {
            state: worst.state,
            since: worst.since,
            what: match (worst.state, who.is_empty()) {
                (State::Waits | State::Hang, false) => format!("waits for {who}: {what}"),
                (State::Gone, false) => format!("{who}: {what}"),
                _ => what,
            },
            ranks,
            ask: match worst.state {
                State::Moves | State::Gone => Vec::new(),
                State::Waits | State::Hang => ASK[..2].to_vec(),
                State::Unknown => ASK.to_vec(),
            },
            jobs: 1,
            ended: false,
        }
    }

    /// Its known hosts.
    fn hosts(&self) -> usize {
        let hosts: BTreeSet<&str> = self.processes.iter().map(|it| it.0.as_str()).collect();
        hosts.len().max(usize::try_from(self.hosts).unwrap_or(0))
    }

    /// A rank of a communicator, by its rank in the largest communicator of the job.
    fn awaited(&self, group: &Group, rank: &Rank) -> Awaited {
        let known = self.groups.values().filter_map(|it| {
            let number = match std::ptr::eq(it, group) {
                true => rank.rank,
                false => it.rank_of(rank)?,
            };
            Some((it.members(), number))
        });
        let largest = known.max_by_key(|it| it.0).filter(|_| !self.is_text);
        Awaited {
            rank: largest.map_or(rank.rank, |it| it.1),
            host: rank.host.clone(),
            process: rank.process,
            device: rank.device,
            communicator: group.name.clone(),
            rank_there: rank.rank,
        }
    }

    /// Whether a rank launched something in the last seconds, in any communicator.
    fn launches(&self, rank: &Rank, now: Duration) -> bool {
        let mut changed = self.groups.values().filter_map(|it| it.changed(rank));
        changed.any(|at| now - at < STILL)
    }
}
