//! Ranks by lines of PyTorch's watchdog.

use std::collections::{BTreeMap, BTreeSet};

use findings::causes::Certainty::{Likely, Possible, Proved};
use findings::causes::table::hang;
use findings::causes::{Cause, Certainty};
use records::evidence::ras::Report;
use records::evidence::watchdog::{Event, Timeout, is_own};
use records::nccl_log::Log;

use crate::predict::{Call, Predict};
use crate::recorders::fingerprints;
use crate::verdict::{Line, MOST_LINES, Missing, Verdict, ranks, sentence};

/// Most events that are kept.
const MOST: usize = 1 << 14;

/// What PyTorch logged.
#[derive(Debug, Default)]
pub(crate) struct Timeouts {
    events: Vec<(Event, Line)>,
    is_timeout: bool,
}

/// Ranks that wait in one collective of one group.
#[derive(Debug)]
struct Waiting<'a> {
    timeout: &'a Timeout,
    ranks: BTreeSet<u32>,
    lines: Vec<Line>,
}

/// A group: how far each rank came, and who waits where.
#[derive(Debug, Default)]
struct Group<'a> {
    /// By number of the collective.
    waiting: BTreeMap<u64, Waiting<'a>>,
    /// By rank the last collective that it called, and that it finished.
    last: BTreeMap<u32, ([i64; 2], Line)>,
}

impl Timeouts {
    /// Notes what a line says.
    pub(crate) fn add(&mut self, event: Event, line: Line) {
        self.is_timeout |= matches!(
            event,
            Event::Timeout(_) | Event::Progress(_) | Event::Stuck(_)
        );
        if self.events.len() < MOST {
            self.events.push((event, line));
        }
    }

    /// Whether no line says that something hangs.
    pub(crate) const fn is_empty(&self) -> bool {
        !self.is_timeout
    }

    /// Whether only the first collectives of groups timed out.
    pub(crate) fn is_first(&self) -> bool {
        let mut sequences = self.events.iter().filter_map(|it| match &it.0 {
            Event::Timeout(timeout) => Some(timeout.sequence),
            _ => None,
        });
        sequences.clone().next().is_some() && sequences.all(|it| it.is_some_and(|it| it <= 2))
    }

    /// The groups by name. A timeout has its group in a later line of the same rank.
    fn groups(&self) -> BTreeMap<String, Group<'_>> {
        let mut names: BTreeMap<(Option<u32>, u64), &str> = BTreeMap::new();
        for (event, _) in &self.events {
            if let Event::Progress(progress) = event
                && let Some(group) = &progress.by.group
            {
                names
                    .entry((progress.by.global.or(progress.by.local), progress.sequence))
                    .or_insert(group);
            }
        }
        let mut groups: BTreeMap<String, Group<'_>> = BTreeMap::new();
        for (event, line) in &self.events {
            match event {
                Event::Timeout(timeout) => {
                    let by = &timeout.by;
                    let rank = by.global.or(by.local);
                    let sequence = timeout.sequence.unwrap_or(0);
                    let name = by
                        .group
                        .as_deref()
                        .or_else(|| names.get(&(rank, sequence)).copied());
                    let group = groups
                        .entry(name.unwrap_or_default().to_owned())
                        .or_default();
                    let waiting = group.waiting.entry(sequence).or_insert_with(|| Waiting {
                        timeout,
                        ranks: BTreeSet::new(),
                        lines: Vec::new(),
                    });
                    waiting.ranks.extend(rank);
                    if waiting.lines.len() < MOST_LINES {
                        waiting.lines.push(line.clone());
                    }
                }
                Event::Progress(it) => {
                    if let (Some(last), Some(rank)) = (it.last, it.by.global.or(it.by.local)) {
                        let group = groups
                            .entry(it.by.group.clone().unwrap_or_default())
                            .or_default();
                        group.last.insert(rank, (last, line.clone()));
                    }
                }
                Event::Signal(by, Some(last)) => {
                    if let Some(rank) = by.global.or(by.local) {
                        let group = groups
                            .entry(by.group.clone().unwrap_or_default())
                            .or_default();
                        group.last.entry(rank).or_insert((*last, line.clone()));
                    }
                }
                _ => {}
            }
        }
        groups
    }

    /// Verdicts, and what would tell more.
    pub(crate) fn verdicts(
        &self,
        reports: &[(String, Report)],
        log: &Log,
        hosts: &BTreeMap<u32, String>,
        predict: &dyn Predict,
    ) -> (Vec<Verdict>, Vec<Missing>) {
        let mut verdicts = self.desync(hosts);
        let groups = self.groups();
        let timed_out: Vec<(&String, &Group<'_>)> = groups
            .iter()
            .filter(|it| !it.1.waiting.is_empty())
            .collect();
        if verdicts.is_empty() {
            match timed_out.as_slice() {
                [first, second] if is_crossed([*first, *second]) => {
                    verdicts.push(crossed([*first, *second], &hang::GROUP_ORDER, Likely));
                }
                [first, second] if is_apart([*first, *second]) => {
                    for cause in [&hang::RANK_MISSING, &hang::GROUP_ORDER] {
                        verdicts.push(crossed([*first, *second], cause, Possible));
                    }
                }
                all => {
                    for (name, group) in all {
                        let others = all.iter().filter(|it| it.0 != *name);
                        let elsewhere = others.flat_map(|it| it.1.ranks()).collect();
                        verdicts.push(group.verdict(name, &elsewhere, log, hosts, predict));
                    }
                }
            }
        }
        let is_precise = verdicts
            .iter()
            .all(|it| !it.ranks.is_empty() || it.cause.id == "watchdog-stuck");
        for verdict in &mut verdicts {
            self.frame(verdict);
            if let Some((input, report)) = reports
                .iter()
                .find(|it| it.1.healthy > 0 && it.1.findings.is_empty())
            {
                verdict.what.push_str(
                    " RAS calls the communicator healthy: that says only that NCCL's own threads answer.",
                );
                verdict
                    .lines
                    .push(Line::new(input, report.healthy_line, "RUNNING, OK"));
            }
        }
        let mut missing = Vec::new();
        let is_known = is_precise && verdicts.iter().any(|it| it.certainty == Proved);
        if !timed_out.is_empty() && !is_known {
            missing.push(Missing {
                what: "which rank is missing".to_owned(),
                how: "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1, then \
                      the recorders of all ranks (/tmp/nccl_trace_rank_*)"
                    .to_owned(),
            });
        }
        (verdicts, missing)
    }

    /// Adds the first frame of the program, if the log has the stack.
    fn frame(&self, verdict: &mut Verdict) {
        let frames = self.events.iter().filter_map(|(event, line)| match event {
            Event::Frame(frame) if !is_own(frame) => Some(line),
            _ => None,
        });
        if verdict.lines.len() < MOST_LINES {
            verdict.lines.extend(frames.take(1).cloned());
        }
    }

    /// What reports of ranks out of step say.
    fn desync(&self, hosts: &BTreeMap<u32, String>) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for (event, line) in &self.events {
            let verdict = match event {
                Event::NotJoined(at, next) => {
                    let of = next.map_or("any collective".to_owned(), |next| {
                        format!("collective #{next}")
                    });
                    let what = format!("{} did not join {of}.", sentence(&ranks(at)));
                    placed(Verdict::new(&hang::RANK_MISSING, Proved, what), at, hosts)
                }
                Event::Barrier(at) => {
                    let what = format!(
                        "{} did not pass a watched barrier in time.",
                        sentence(&ranks(at))
                    );
                    placed(Verdict::new(&hang::RANK_MISSING, Proved, what), at, hosts)
                }
                Event::Mismatch([(one, its), (other, others)]) => {
                    let what = format!("Rank {one} is in {its}; rank {other} is in {others}.");
                    let (cause, certainty) = fingerprints(its, others);
                    let mut verdict = Verdict::new(cause, certainty, what);
                    verdict.collective = Some(its.clone());
                    placed(verdict, &[*one, *other], hosts)
                }
                Event::Stuck(by) if self.is_only_stuck() => {
                    let at: Vec<u32> = by.global.or(by.local).into_iter().collect();
                    let what = "The monitor of the watchdog says that a call of CUDA or NCCL does not return.".to_owned();
                    placed(
                        Verdict::new(&hang::WATCHDOG_STUCK, Likely, what),
                        &at,
                        hosts,
                    )
                }
                _ => continue,
            };
            let is_known = |it: &&mut Verdict| it.cause == verdict.cause && it.what == verdict.what;
            if let Some(known) = verdicts.iter_mut().find(is_known) {
                join(&mut known.ranks, verdict.ranks);
                join(&mut known.hosts, verdict.hosts);
                if known.lines.len() < MOST_LINES {
                    known.lines.push(line.clone());
                }
            } else if verdicts.len() < MOST_LINES {
                verdicts.push(Verdict {
                    lines: vec![line.clone()],
                    ..verdict
                });
            }
        }
        verdicts
    }

    /// Whether the monitor's lines are all there is: no collective timed out.
    fn is_only_stuck(&self) -> bool {
        !self
            .events
            .iter()
            .any(|it| matches!(it.0, Event::Timeout(_)))
    }
}

/// Adds values, each once, in order.
fn join<T: Ord>(all: &mut Vec<T>, more: Vec<T>) {
    all.extend(more);
    all.sort_unstable();
    all.dedup();
}

fn placed(verdict: Verdict, at: &[u32], hosts: &BTreeMap<u32, String>) -> Verdict {
    let mut names: Vec<String> = at.iter().filter_map(|it| hosts.get(it).cloned()).collect();
    names.sort_unstable();
    names.dedup();
    Verdict {
        ranks: at.to_vec(),
        hosts: names,
        ..verdict
    }
}

impl Group<'_> {
    fn ranks(&self) -> BTreeSet<u32> {
        self.waiting
            .values()
            .flat_map(|it| it.ranks.iter().copied())
            .collect()
    }

    /// The ranks that did not call the collective in which others wait, with the lines that say so.
    /// Numbers of an unknown group cannot be compared.
    fn late(&self, name: &str) -> Vec<(u32, &Line)> {
        let Some((&sequence, waiting)) = self.waiting.iter().next().filter(|_| !name.is_empty())
        else {
            return Vec::new();
        };
        let number = i64::try_from(sequence).unwrap_or(i64::MAX);
        let late = self
            .last
            .iter()
            .filter(|(rank, ([called, _], _))| *called < number && !waiting.ranks.contains(rank));
        late.map(|(rank, (_, line))| (*rank, line)).collect()
    }

    /// `elsewhere`: ranks that wait in other groups.
    fn verdict(
        &self,
        name: &str,
        elsewhere: &BTreeSet<u32>,
        log: &Log,
        hosts: &BTreeMap<u32, String>,
        predict: &dyn Predict,
    ) -> Verdict {
        let Some((&sequence, waiting)) = self.waiting.iter().next() else {
            return Verdict::new(&hang::RANK_MISSING, Possible, String::new());
        };
        let call = call(sequence, waiting.timeout);
        let at: Vec<u32> = waiting.ranks.iter().copied().collect();
        let of = match name {
            "" => String::new(),
            name => format!(" of group {name}"),
        };
        let wait = match at.len() {
            0 => format!("A rank waits in {call}{of}"),
            1 => format!("Rank {} waits in {call}{of}", at[0]),
            _ => format!("{} wait in {call}{of}", sentence(&ranks(&at))),
        };
        let mut verdict = self.cause(name, elsewhere, (sequence, waiting), &wait, log, hosts);
        let known = self.last.keys().chain(&waiting.ranks).max();
        let known = known.map_or(0, |it| it.saturating_add(1));
        if let Some(text) = pace(waiting.timeout, log, known, predict) {
            verdict.what = format!("{} {text}", verdict.what);
        }
        verdict.group = Some(name.to_owned()).filter(|it| !it.is_empty());
        verdict.collective = Some(call);
        let mut lines = waiting.lines.clone();
        lines.append(&mut verdict.lines);
        lines.truncate(MOST_LINES);
        verdict.lines = lines;
        verdict
    }

    /// Why a collective waits: by how far the other ranks came.
    fn cause(
        &self,
        name: &str,
        elsewhere: &BTreeSet<u32>,
        (sequence, waiting): (u64, &Waiting<'_>),
        wait: &str,
        log: &Log,
        hosts: &BTreeMap<u32, String>,
    ) -> Verdict {
        // A rank that waits in another group keeps the others, and is not at fault.
        let mut late = self.late(name);
        late.retain(|(rank, _)| !elsewhere.contains(rank));
        if !late.is_empty() {
            let at: Vec<u32> = late.iter().map(|it| it.0).collect();
            let what = format!("{wait}; {} did not call it.", ranks(&at));
            let verdict = placed(Verdict::new(&hang::RANK_MISSING, Proved, what), &at, hosts);
            return Verdict {
                lines: late
                    .into_iter()
                    .take(MOST_LINES / 2)
                    .map(|it| it.1.clone())
                    .collect(),
                ..verdict
            };
        }
        let number = i64::try_from(sequence).unwrap_or(i64::MAX);
        let has_passed = self
            .last
            .iter()
            .any(|(rank, ([_, finished], _))| *finished >= number && !waiting.ranks.contains(rank));
        let later = self.waiting.range(sequence.saturating_add(1)..).next();
        if let (true, Some((next, other))) = (has_passed, later) {
            let at: Vec<u32> = other.ranks.iter().copied().collect();
            let what = format!(
                "{wait}; {} finished it, and waits in {}: the ranks are out of step.",
                ranks(&at),
                call(*next, other.timeout)
            );
            let mut verdict = Verdict::new(&hang::COLLECTIVE_MISMATCH, Likely, what);
            verdict.lines.clone_from(&other.lines);
            return verdict;
        }
        let size = log.communicators.iter().map(|it| it.ranks as usize).max();
        if size == Some(waiting.ranks.len()) {
            let what = format!("{wait}: all ranks of the job.");
            return Verdict::new(&hang::TRANSFER_STALLED, Likely, what);
        }
        Verdict::new(&hang::RANK_MISSING, Likely, format!("{wait}."))
    }
}

/// Whether other ranks wait in one group than in another, and none is known to be late.
fn is_apart([(one, first), (other, second)]: [(&String, &Group<'_>); 2]) -> bool {
    first.ranks().is_disjoint(&second.ranks())
        && first.late(one).is_empty()
        && second.late(other).is_empty()
}

/// Whether each of two groups waits for a rank that waits in the other.
fn is_crossed([(one, first), (other, second)]: [(&String, &Group<'_>); 2]) -> bool {
    let keeps = |late: Vec<(u32, &Line)>, ranks: BTreeSet<u32>| {
        late.iter().any(|(rank, _)| ranks.contains(rank))
    };
    keeps(first.late(one), second.ranks()) && keeps(second.late(other), first.ranks())
}

/// Two groups that wait at once on different ranks.
fn crossed(
    groups: [(&String, &Group<'_>); 2],
    cause: &'static Cause,
    certainty: Certainty,
) -> Verdict {
    let texts = groups.map(|(name, group)| {
        let first = group.waiting.iter().next();
        let call = first.map_or(String::new(), |(sequence, it)| call(*sequence, it.timeout));
        let at: Vec<u32> = group.ranks().into_iter().collect();
        let wait = if at.len() == 1 { "waits" } else { "wait" };
        format!("{} {wait} in {call} of group {name}", ranks(&at))
    });
    let why = match certainty {
        Possible => {
            "Either a rank of both groups is missing, or the ranks launch the two groups in different orders"
        }
        _ => "Each group waits for a rank that waits in the other",
    };
    let what = format!(
        "{}; {}, at the same time. {why}.",
        sentence(&texts[0]),
        texts[1]
    );
    let lines = groups.iter().flat_map(|(_, group)| {
        group
            .waiting
            .values()
            .flat_map(|it| it.lines.clone())
            .take(2)
    });
    Verdict {
        lines: lines.collect(),
        group: Some(format!("{} and {}", groups[0].0, groups[1].0)),
        ..Verdict::new(cause, certainty, what)
    }
}

/// `ALLREDUCE #57`.
fn call(sequence: u64, timeout: &Timeout) -> String {
    match timeout.sequence {
        Some(_) => format!("{} #{sequence}", timeout.function),
        None => timeout.function.clone(),
    }
}

/// Most bytes of an element.
const WIDEST: u64 = 8;

/// The time of the collective beside the time that it waits.
fn pace(timeout: &Timeout, log: &Log, ranks: u32, predict: &dyn Predict) -> Option<String> {
    let [into, out] = timeout.elements?;
    let bytes = into.max(out).saturating_mul(WIDEST);
    let waited = timeout.ran.or(timeout.limit)?;
    let (time, source) = predict.time(&Call {
        function: &timeout.function,
        bytes,
        log,
        ranks,
    });
    if (waited as f64) < 20.0 * time {
        return None;
    }
    Some(format!(
        "At most {} take about {} {source}, so {} s are no slowness: a rank is missing, in another call, or cut off.",
        size(bytes),
        milliseconds(time),
        waited / 1000
    ))
}

fn size(bytes: u64) -> String {
    match bytes as f64 {
        bytes if bytes >= 1e9 => format!("{:.1} GB", bytes / 1e9),
        bytes if bytes >= 1e6 => format!("{:.1} MB", bytes / 1e6),
        bytes if bytes >= 1e3 => format!("{:.1} KB", bytes / 1e3),
        bytes => format!("{bytes} bytes"),
    }
}

fn milliseconds(time: f64) -> String {
    match time {
        1000.0.. => format!("{:.1} s", time / 1000.0),
        10.0.. => format!("{time:.0} ms"),
        _ => format!("{time:.1} ms"),
    }
}
