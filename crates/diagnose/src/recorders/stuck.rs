//! Calls that do not end, and the ranks that keep them.

use std::collections::{BTreeMap, BTreeSet};

use records::evidence::recorder::{Entry, State};

use super::job::Job;
use crate::verdict::{Missing, ranks};

/// What does not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// A collective, by group and number.
    Collective(u32, u64),
    /// Sends of one rank to another in a group.
    Pair(u32, u32, u32),
}

impl What {
    /// What it is in, without the number of the call: a group or pair waits in one call.
    pub(super) const fn place(self) -> Self {
        match self {
            Self::Collective(group, _) => Self::Collective(group, 0),
            it @ Self::Pair(..) => it,
        }
    }
}

/// A call that did not end on some rank.
#[derive(Debug)]
pub(super) struct Stuck<'a> {
    pub(super) what: What,
    /// The ranks that called it and wait, with their calls.
    pub(super) waiting: Vec<(u32, &'a Entry)>,
    /// The ranks with a recorder that did not call it.
    pub(super) absent: Vec<u32>,
    /// The ranks without a recorder.
    pub(super) silent: Vec<u32>,
    /// The ranks whose recorder does not say whether they called it.
    pub(super) unknown: Vec<u32>,
    /// The ranks that called it, behind another call that did not end or, if others started, behind
    /// other work of their GPU.
    pub(super) behind: Vec<u32>,
}

impl Stuck<'_> {
    /// The ranks for which the others wait.
    pub(super) fn blockers(&self) -> impl Iterator<Item = u32> {
        self.absent.iter().chain(&self.behind).copied()
    }
}

/// The oldest call of each group, and of each pair of ranks, that does not end.
pub(super) fn stuck<'a>(job: &Job<'a>, is_hang: bool) -> Vec<Stuck<'a>> {
    let mut all = Vec::new();
    for group in 0..u32::try_from(job.groups.len()).unwrap_or(u32::MAX) {
        all.extend(collective(job, group));
        pairs(job, group, is_hang, &mut all);
    }
    all
}

fn collective<'a>(job: &Job<'a>, group: u32) -> Option<Stuck<'a>> {
    let ranks = job.ranks(group);
    let members = ranks.iter().filter_map(|rank| job.members.get(rank));
    let open = members.filter_map(|it| {
        it.calls
            .get(&group)?
            .iter()
            .find(|it| it.state != State::Completed)
    });
    let sequence = open.map(|it| it.sequence).min()?;
    let mut stuck = Stuck {
        what: What::Collective(group, sequence),
        waiting: Vec::new(),
        absent: Vec::new(),
        silent: Vec::new(),
        unknown: Vec::new(),
        behind: Vec::new(),
    };
    for &rank in ranks {
        let Some(member) = job.members.get(&rank) else {
            stuck.silent.push(rank);
            continue;
        };
        let calls = member.at(group, sequence);
        match calls.iter().find(|it| it.state != State::Completed) {
            Some(&entry) => stuck.waiting.push((rank, entry)),
            None if calls.is_empty() && member.never_called(group, sequence) => {
                stuck.absent.push(rank)
            }
            None if member.window(group).is_none() => stuck.unknown.push(rank),
            // It is through, or its recorder does not reach back so far.
            None => {}
        }
    }
    behind(job, &mut stuck);
    Some(stuck)
}

/// Finds the ranks whose GPU did not reach the call.
fn behind(job: &Job<'_>, stuck: &mut Stuck<'_>) {
    let is_started = |it: &(u32, &Entry)| it.1.state == State::Started;
    let some_started = stuck.waiting.iter().any(is_started);
    for (rank, entry) in &stuck.waiting {
        let front = job.members.get(rank).and_then(|it| it.front);
        let behind_other = front.is_some_and(|front| {
            front.record < entry.record && key(job, front) != Some(stuck.what)
        });
        if entry.state == State::Scheduled && (behind_other || some_started) {
            stuck.behind.push(*rank);
        }
    }
}

/// What a call belongs to.
pub(super) fn key(job: &Job<'_>, entry: &Entry) -> Option<What> {
    match entry.is_point_to_point {
        false => Some(What::Collective(entry.group, entry.sequence)),
        true => {
            let (from, to, _) = ends(job, entry)?;
            Some(What::Pair(entry.group, from, to))
        }
    }
}

/// The sender, the receiver, and whether the call sends: `send 0->1` and `recv 1<-0`, with ranks of
/// the group.
fn ends(job: &Job<'_>, entry: &Entry) -> Option<(u32, u32, bool)> {
    let text = job.text(entry.function);
    // Without the group's list its ranks have no places.
    let listed = &job.recorders.groups.get(entry.group as usize)?.ranks;
    let global = |text: &str| {
        let place: usize = text.trim().parse().ok()?;
        listed.get(place).copied()
    };
    if let Some((from, to)) = text
        .strip_prefix("send ")
        .and_then(|it| it.split_once("->"))
    {
        return Some((global(from)?, global(to)?, true));
    }
    let (to, from) = text.strip_prefix("recv ")?.split_once("<-")?;
    Some((global(from)?, global(to)?, false))
}

/// Sends and receives of each pair of ranks. Both sides call in one order, so the n-th send meets
/// the n-th receive. Where a recorder lacks older calls, nothing says which is the n-th; but once
/// the job is known to hang, all before the first open one have met.
fn pairs<'a>(job: &Job<'a>, group: u32, is_hang: bool, all: &mut Vec<Stuck<'a>>) {
    let mut sides: BTreeMap<(u32, u32), [Vec<&'a Entry>; 2]> = BTreeMap::new();
    for rank in job.ranks(group) {
        let entries = job
            .members
            .get(rank)
            .map_or(&[][..], |it| it.dump.entries.as_slice());
        let calls = entries
            .iter()
            .filter(|it| it.is_point_to_point && it.group == group);
        for entry in calls {
            if let Some((from, to, sends)) = ends(job, entry) {
                sides.entry((from, to)).or_default()[usize::from(!sends)].push(entry);
            }
        }
    }
    let is_open = |it: &&&Entry| it.state != State::Completed;
    for ((from, to), [sends, receives]) in sides {
        let [sender, receiver] = [from, to].map(|rank| job.members.get(&rank));
        let are_whole = [sender, receiver]
            .iter()
            .all(|it| it.is_some_and(|it| it.dump.is_whole));
        let first = |calls: &[&'a Entry]| calls.iter().find(is_open).copied();
        let (send, receive) = match are_whole {
            true => {
                let halves = (0..).map(|it| (sends.get(it).copied(), receives.get(it).copied()));
                let mut halves = halves.take(sends.len().max(receives.len()));
                // A receive that ended has its data, whatever its sender says.
                let is_stuck = |(send, receive): &(Option<&Entry>, Option<&Entry>)| match receive {
                    Some(it) => is_open(&it),
                    None => send.as_ref().is_some_and(|it| is_open(&it)),
                };
                halves.find(is_stuck).unwrap_or_default()
            }
            false => (first(&sends), first(&receives)),
        };
        let mut stuck = Stuck {
            what: What::Pair(group, from, to),
            waiting: Vec::new(),
            absent: Vec::new(),
            silent: Vec::new(),
            unknown: Vec::new(),
            behind: Vec::new(),
        };
        for (rank, call, other, its) in [(from, send, to, receive), (to, receive, from, send)] {
            let Some(entry) = call.filter(|it| is_open(&it)) else {
                continue;
            };
            stuck.waiting.push((rank, entry));
            if !job.members.contains_key(&other) {
                stuck.silent.push(other);
            } else if !are_whole && !is_hang {
                stuck.unknown.push(other);
            } else if its.is_none() {
                stuck.absent.push(other);
            }
        }
        if !stuck.waiting.is_empty() {
            behind(job, &mut stuck);
            all.push(stuck);
        }
    }
}

/// What would tell more about calls that do not end.
pub(super) fn missing(stuck: &[Stuck<'_>], is_hang: bool) -> Vec<Missing> {
    let mut missing = Vec::new();
    let collectives = stuck
        .iter()
        .filter(|it| matches!(it.what, What::Collective(..)));
    let unknown: BTreeSet<u32> = collectives.flat_map(|it| &it.unknown).copied().collect();
    if !unknown.is_empty() {
        let unknown: Vec<u32> = unknown.into_iter().collect();
        missing.push(Missing {
            what: format!(
                "how far {} came: no call of a group that waits is in the recorder",
                ranks(&unknown)
            ),
            how: "py-spy on the process; next time a larger TORCH_NCCL_TRACE_BUFFER_SIZE"
                .to_owned(),
        });
    }
    if !is_hang && !stuck.is_empty() {
        missing.push(Missing {
            what: "whether the job stood still when the recorders were written".to_owned(),
            how: "give the log with the watchdog's lines, or write the recorders again after a minute".to_owned(),
        });
    }
    missing
}
