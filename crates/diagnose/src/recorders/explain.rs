//! Verdicts about calls that do not end.

use std::collections::{BTreeMap, BTreeSet};

use findings::causes::Certainty::{Likely, Possible, Proved};
use findings::causes::table::hang;
use findings::causes::{Cause, Certainty};

use super::Found;
use super::compare::Mismatch;
use super::job::Job;
use super::mismatches;
use super::stuck::{self, Stuck, What, key};
use crate::verdict::{MOST_LINES, MOST_WAITS, Verdict, Wait, ranks, sentence};

/// Explains what does not end: a mismatch, a circle of groups, or the ranks at the end of
/// each chain.
pub(super) fn explain(
    job: &Job<'_>,
    stuck: &[Stuck<'_>],
    mismatches: &[Mismatch<'_>],
    is_hang: bool,
    found: &mut Found,
) {
    let waits = Waits::of(job, stuck);
    found.waits = waits.list(job, stuck);
    let mut explained = BTreeSet::new();
    for mismatch in mismatches {
        let at = stuck.iter().position(|it| mismatch.is_in(it.what));
        explained.extend(at);
        found.verdicts.push(mismatches::mismatched(
            job,
            mismatch,
            at.map(|at| &stuck[at]),
        ));
    }
    // A group in doubt about its members explains its own calls.
    if !found.verdicts.is_empty() && mismatches.is_empty() {
        return;
    }
    let mut roots: BTreeMap<usize, usize> = BTreeMap::new();
    let mut circles: BTreeSet<Vec<usize>> = BTreeSet::new();
    for place in 0..stuck.len() {
        match waits.end(place) {
            End::Circle(circle) => _ = circles.insert(circle),
            End::Root(root) => *roots.entry(root).or_default() += 1,
        }
    }
    for circle in circles {
        if circle.iter().any(|it| explained.contains(it)) {
            continue;
        }
        found.verdicts.extend(circled(job, stuck, &circle, is_hang));
    }
    // Collectives before sends, and of the calls that wait for one rank the oldest.
    let mut roots: Vec<(usize, usize)> = roots
        .into_iter()
        .filter(|it| !explained.contains(&it.0))
        .collect();
    let age = |it: &Stuck<'_>| it.waiting.iter().map(|it| it.1.times[0]).min();
    roots.sort_by_key(|(root, _)| {
        (
            matches!(stuck[*root].what, What::Pair(..)),
            age(&stuck[*root]),
        )
    });
    let mut known: Vec<(bool, Vec<u32>)> = Vec::new();
    for (root, waiting) in roots {
        let Some(mut verdict) = rooted(job, stuck, &stuck[root], is_hang) else {
            continue;
        };
        let is_silent = verdict.cause == &hang::RANK_SILENT;
        let is_named = is_silent || !verdict.ranks.is_empty();
        if is_named && known.contains(&(is_silent, verdict.ranks.clone())) {
            continue;
        }
        known.push((is_silent, verdict.ranks.clone()));
        if waiting > 1 {
            verdict.what.push_str(&format!(
                " {} other calls wait for this one: {}.",
                waiting - 1,
                waits.chain(job, stuck, root)
            ));
        }
        found.verdicts.push(verdict);
    }
    found.missing.extend(stuck::missing(stuck, is_hang));
}

/// Calls that wait for each other in a circle.
fn circled(job: &Job<'_>, stuck: &[Stuck<'_>], circle: &[usize], is_hang: bool) -> Option<Verdict> {
    let mut halves = circle.iter().map(|it| &stuck[*it]);
    let half = halves.find(|it| matches!(it.what, What::Pair(..)));
    let Some(half) = half else {
        return Some(crossed(job, stuck, circle, is_hang));
    };
    // The other half of a send is missing, or comes later in the program. One rank calls too much,
    // or the other too little.
    let verdict = match half.absent.is_empty() {
        _ if !half.unknown.is_empty() => None,
        true => Some(late(job, half)),
        false => rooted(job, stuck, half, false),
    };
    verdict.map(|it| Verdict {
        ranks: Vec::new(),
        hosts: Vec::new(),
        ..it
    })
}

/// Who waits for whom.
struct Waits {
    /// By stuck call the calls in which its blockers wait.
    edges: Vec<Vec<usize>>,
}

/// Whether a rank waits in no call.
fn is_idle(job: &Job<'_>, rank: u32) -> bool {
    job.members.get(&rank).is_some_and(|it| it.front.is_none())
}

/// Where a chain of waits ends.
enum End {
    Circle(Vec<usize>),
    Root(usize),
}

impl Waits {
    fn of(job: &Job<'_>, stuck: &[Stuck<'_>]) -> Self {
        let places: BTreeMap<What, usize> = stuck
            .iter()
            .enumerate()
            .map(|(place, it)| (it.what.place(), place))
            .collect();
        let edges = stuck.iter().enumerate().map(|(place, it)| {
            // A rank that waits for nobody is the end of the chain.
            if it.absent.iter().any(|rank| is_idle(job, *rank)) {
                return Vec::new();
            }
            let fronts = it.blockers().filter_map(|rank| {
                let front = job.members.get(&rank)?.front?;
                let to = places.get(&key(job, front)?.place()).copied();
                to.filter(|to| *to != place)
            });
            let mut edges: Vec<usize> = fronts.collect();
            edges.sort_unstable();
            edges.dedup();
            edges
        });
        Self {
            edges: edges.collect(),
        }
    }

    /// The waits, by the place of their call.
    fn list(&self, job: &Job<'_>, stuck: &[Stuck<'_>]) -> Vec<Wait> {
        let calls = stuck.iter().zip(&self.edges).take(MOST_WAITS);
        let waits = calls.map(|(it, edges)| {
            let (_, entry) = it.waiting[0];
            let mut awaited: Vec<u32> = it.blockers().collect();
            awaited.sort_unstable();
            awaited.dedup();
            let mut unknown: Vec<u32> = it.silent.iter().chain(&it.unknown).copied().collect();
            unknown.sort_unstable();
            Wait {
                group: job.group_name(entry.group),
                call: job.call(entry),
                waiting: it.waiting.iter().map(|it| it.0).collect(),
                awaited,
                unknown,
                next: edges
                    .iter()
                    .copied()
                    .filter(|it| *it < MOST_WAITS)
                    .collect(),
            }
        });
        waits.collect()
    }

    /// Follows the waits from a call to a circle, or to a call that waits for no other.
    fn end(&self, from: usize) -> End {
        let mut path: Vec<usize> = vec![from];
        let mut place = from;
        loop {
            let Some(&next) = self.edges[place].first() else {
                return End::Root(place);
            };
            if let Some(at) = path.iter().position(|it| *it == next) {
                let mut circle = path.split_off(at);
                let least = circle
                    .iter()
                    .enumerate()
                    .min_by_key(|it| it.1)
                    .map_or(0, |it| it.0);
                circle.rotate_left(least);
                return End::Circle(circle);
            }
            path.push(next);
            place = next;
        }
    }

    /// The calls that wait for one, directly or through others.
    fn chain(&self, job: &Job<'_>, stuck: &[Stuck<'_>], root: usize) -> String {
        const SHOWN: usize = 4;
        let ends = (0..stuck.len()).filter(|it| *it != root);
        let ends = ends.filter(|it| matches!(self.end(*it), End::Root(end) if end == root));
        let names = ends.filter_map(|it| {
            let (_, entry) = stuck[it].waiting.first()?;
            Some(format!(
                "{} of {}",
                job.call_name(entry),
                job.group_name(entry.group)
            ))
        });
        let names: Vec<String> = names.collect();
        let more = names.len().saturating_sub(SHOWN);
        let shown = names[..names.len() - more].join(", ");
        match more {
            0 => shown,
            more => format!("{shown} and {more} more"),
        }
    }
}

fn verdict(
    job: &Job<'_>,
    stuck: &Stuck<'_>,
    cause: &'static Cause,
    certainty: Certainty,
    at: &[u32],
    what: String,
) -> Verdict {
    let (_, entry) = stuck.waiting[0];
    let waiting = stuck.waiting.iter().take(MOST_LINES / 2);
    Verdict {
        ranks: at.to_vec(),
        hosts: job.hosts(at),
        group: Some(job.group_name(entry.group)),
        collective: Some(job.call(entry)),
        lines: waiting
            .map(|(rank, entry)| job.line(*rank, entry))
            .collect(),
        ..Verdict::new(cause, certainty, what)
    }
}

/// The end of a chain: ranks that did not call, left no recorder or did not start, or nobody.
/// `None` if ranks that nothing is known of could explain it.
fn rooted(job: &Job<'_>, all: &[Stuck<'_>], stuck: &Stuck<'_>, is_hang: bool) -> Option<Verdict> {
    let waiting: Vec<u32> = stuck.waiting.iter().map(|it| it.0).collect();
    let (_, entry) = stuck.waiting[0];
    let name = format!("{} of {}", job.call(entry), job.group_name(entry.group));
    let wait = match waiting.len() {
        1 => format!("Rank {} waits in {name}", waiting[0]),
        _ => format!("{} wait in {name}", sentence(&ranks(&waiting))),
    };
    if !stuck.absent.is_empty() {
        return Some(absent(job, all, stuck, is_hang, &wait));
    }
    if !stuck.unknown.is_empty() {
        return None;
    }
    if !stuck.silent.is_empty() {
        // A recorder that is not given says nothing of its rank.
        let what = format!(
            "{wait}; no flight recorder of {} is given, and all others entered it.",
            ranks(&stuck.silent)
        );
        return Some(verdict(job, stuck, &hang::RANK_SILENT, Possible, &[], what));
    }
    if !stuck.behind.is_empty() && is_hang {
        let what = format!(
            "{wait}; on {} the GPU has not started it, and nothing earlier of NCCL is open there.",
            ranks(&stuck.behind)
        );
        return Some(verdict(
            job,
            stuck,
            &hang::STREAM_BLOCKED,
            Likely,
            &stuck.behind,
            what,
        ));
    }
    let certainty = if is_hang { Likely } else { Possible };
    let through = job.ranks(entry.group).len().saturating_sub(waiting.len());
    let what = match through {
        _ if matches!(stuck.what, What::Pair(..)) => {
            format!("{wait}; both halves are called, and it did not end.")
        }
        0 => format!("{wait}; all ranks called it with equal sizes, and it did not end."),
        through => format!("{wait}, {through} are through; all called it with equal sizes."),
    };
    Some(verdict(
        job,
        stuck,
        &hang::TRANSFER_STALLED,
        certainty,
        &[],
        what,
    ))
}

/// A call that some ranks did not make. `wait` says who waits.
fn absent(
    job: &Job<'_>,
    all: &[Stuck<'_>],
    stuck: &Stuck<'_>,
    is_hang: bool,
    wait: &str,
) -> Verdict {
    let waiting: Vec<u32> = stuck.waiting.iter().map(|it| it.0).collect();
    let is_pair = matches!(stuck.what, What::Pair(..));
    let idle = stuck.absent.iter().copied().filter(|it| is_idle(job, *it));
    let idle: Vec<u32> = idle.collect();
    let at = if idle.is_empty() {
        &stuck.absent
    } else {
        &idle
    };
    let count = stuck.waiting.len();
    // Ranks that nothing is known of could be on either side.
    let is_all = stuck.silent.is_empty() && stuck.unknown.is_empty();
    let is_alone = is_all && !is_pair && count == 1 && at.len() >= 2;
    let is_open = !is_all && !is_pair && at.len() > count;
    // One rank waits for another, and no third one does: the first may call too much.
    let waits_for = |rank| {
        let others = all.iter().filter(move |it| it.absent.contains(&rank));
        others.flat_map(|it| it.waiting.iter().map(|it| it.0))
    };
    let is_even = is_all
        && !is_pair
        && matches!((at.as_slice(), waiting.as_slice()), ([one], [other])
            if waits_for(*one).all(|it| it == *other));
    let certainty = match (is_even, is_hang) {
        (true, _) => Possible,
        (false, true) => Proved,
        (false, false) => Likely,
    };
    let what = match (is_pair, is_alone) {
        (true, _) => format!("{wait}; {} never called the other half.", ranks(at)),
        (_, true) => format!("{wait} alone; {} never called it.", ranks(at)),
        _ => format!("{wait}; {} never entered it.", ranks(at)),
    };
    let (cause, blamed) = match (is_pair, is_alone) {
        (true, _) => (&hang::PEER_MISSING, at.as_slice()),
        (_, true) => (&hang::COLLECTIVE_MISMATCH, waiting.as_slice()),
        _ => (&hang::RANK_MISSING, at.as_slice()),
    };
    // Ranks that wait elsewhere are not at fault.
    let blamed = match idle.is_empty() || is_open || is_even {
        true => &[][..],
        false => blamed,
    };
    let mut verdict = verdict(job, stuck, cause, certainty, blamed, what);
    for rank in at.iter().take(MOST_LINES / 2) {
        let member = job.members.get(rank);
        let Some(last) = member.and_then(|it| it.dump.entries.last()) else {
            continue;
        };
        verdict.lines.push(job.line(*rank, last));
        if at.len() == 1 {
            verdict.what.push_str(&format!(
                " The last call of rank {rank} is {} of {}.",
                job.call(last),
                job.group_name(last.group)
            ));
        }
    }
    verdict
}

/// A send or receive whose other half is behind a call that waits for it.
fn late(job: &Job<'_>, stuck: &Stuck<'_>) -> Verdict {
    let at: Vec<u32> = stuck.blockers().collect();
    let waiting = stuck.waiting.iter().find(|it| !at.contains(&it.0));
    let (rank, entry) = waiting.unwrap_or(&stuck.waiting[0]);
    let fronts = at.iter().filter_map(|rank| job.members.get(rank)?.front);
    let front = fronts.map(|it| job.call(it)).next().unwrap_or_default();
    let what = format!(
        "Rank {rank} waits in {}; {} waits first in {front}, so its half is missing or comes too late.",
        job.call(entry),
        ranks(&at)
    );
    verdict(job, stuck, &hang::PEER_MISSING, Likely, &at, what)
}

/// Groups that wait for each other in a circle. Of two groups the ranks at fault are the fewer ones
/// that are first in one of them; otherwise nobody knows which order is right.
fn crossed(job: &Job<'_>, stuck: &[Stuck<'_>], circle: &[usize], is_hang: bool) -> Verdict {
    let mut sentences = Vec::new();
    let mut sides: Vec<Vec<u32>> = Vec::new();
    let mut lines = Vec::new();
    for (at, place) in circle.iter().enumerate() {
        let (here, next) = (&stuck[*place], &stuck[circle[(at + 1) % circle.len()]]);
        let (_, entry) = here.waiting[0];
        let blockers = here.blockers().filter(|rank| {
            let front = job.members.get(rank).and_then(|it| it.front);
            let what = front.and_then(|it| key(job, it));
            what.map(What::place) == Some(next.what.place())
        });
        let blockers: Vec<u32> = blockers.collect();
        let (_, other) = next.waiting[0];
        sentences.push(format!(
            "{} of {} waits for {}, first in {} of {}",
            job.call_name(entry),
            job.group_name(entry.group),
            ranks(&blockers),
            job.call_name(other),
            job.group_name(other.group)
        ));
        for rank in blockers.iter().take(2) {
            let front = job.members.get(rank).and_then(|it| it.front);
            lines.extend(front.map(|front| job.line(*rank, front)));
        }
        sides.push(blockers);
    }
    sides.sort_by_key(Vec::len);
    let blamed = match sides.as_slice() {
        [few, many] if few.len() < many.len() => few.clone(),
        _ => Vec::new(),
    };
    let certainty = if is_hang { Proved } else { Likely };
    let (_, entry) = stuck[circle[0]].waiting[0];
    lines.truncate(MOST_LINES);
    Verdict {
        ranks: blamed.clone(),
        hosts: job.hosts(&blamed),
        group: Some(job.group_name(entry.group)),
        collective: Some(job.call(entry)),
        lines,
        ..Verdict::new(
            &hang::GROUP_ORDER,
            certainty,
            format!("{}.", sentences.join("; ")),
        )
    }
}
