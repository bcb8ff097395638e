//! Calls that must be equal on all ranks of a group.

use std::collections::BTreeMap;

use records::evidence::recorder::Entry;
use records::evidence::symbols::Symbol;

use super::job::Job;
use super::stuck::{Stuck, What};

/// What of a call must be equal on all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Signature {
    pub(super) function: Symbol,
    /// Elements; 0 where ranks may differ.
    pub(super) elements: [u64; 2],
    pub(super) types: Symbol,
}

/// In what calls differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Differs {
    Function,
    Elements,
    Types,
}

/// A call that is not equal on all ranks of a group: the first such one.
#[derive(Debug)]
pub(super) struct Mismatch<'a> {
    pub(super) what: What,
    pub(super) differs: Differs,
    /// The ranks with each form of the call, most ranks first.
    pub(super) sides: Vec<(&'a Entry, Vec<u32>)>,
    /// The ranks of smaller sides call now what the others call next: they skipped this call.
    pub(super) is_skipped: bool,
}

impl Mismatch<'_> {
    /// Whether a call that does not end is of the same group or pair.
    pub(super) fn is_in(&self, what: What) -> bool {
        self.what.place() == what.place()
    }
}

/// The first call of each group that is not equal on all ranks, and sends that do not fit their
/// receives.
pub(super) fn mismatches<'a>(job: &Job<'a>, stuck: &[Stuck<'a>]) -> Vec<Mismatch<'a>> {
    let groups = 0..u32::try_from(job.groups.len()).unwrap_or(u32::MAX);
    let collectives = groups.filter_map(|group| first(job, group));
    collectives
        .chain(stuck.iter().filter_map(|it| pair(it)))
        .collect()
}

/// A send and its receive, both open, of different sizes.
fn pair<'a>(stuck: &Stuck<'a>) -> Option<Mismatch<'a>> {
    let ([(one, first), (other, second)], What::Pair(..)) = (&stuck.waiting[..], stuck.what) else {
        return None;
    };
    if !stuck.unknown.is_empty() {
        return None;
    }
    let moved = |it: &Entry| it.elements[0].max(it.elements[1]);
    let differs = if moved(first) != moved(second) {
        Differs::Elements
    } else if first.types != second.types {
        Differs::Types
    } else {
        return None;
    };
    Some(Mismatch {
        what: stuck.what,
        differs,
        sides: vec![(*first, vec![*one]), (*second, vec![*other])],
        is_skipped: false,
    })
}

fn first<'a>(job: &Job<'a>, group: u32) -> Option<Mismatch<'a>> {
    let ranks = job.ranks(group);
    let windows = ranks
        .iter()
        .filter_map(|rank| job.members.get(rank)?.window(group));
    let begin = windows.clone().map(|it| it.0).min()?;
    let end = windows.map(|it| it.1).max()?;
    // Sequence numbers are dense; a damaged recorder must not make this loop long.
    let longest = ranks
        .iter()
        .filter_map(|rank| job.members.get(rank)?.calls.get(&group))
        .map(Vec::len);
    let begin = begin.max(end.saturating_sub(2 * longest.max()? as u64));
    (begin..=end).find_map(|sequence| at(job, group, sequence))
}

/// Ranks with equal calls: what they call, the call of the first, and the ranks.
type Side<'e> = (Vec<Signature>, (&'e Entry, Vec<u32>));

fn at<'a>(job: &Job<'a>, group: u32, sequence: u64) -> Option<Mismatch<'a>> {
    let mut sides: BTreeMap<Vec<Signature>, (&Entry, Vec<u32>)> = BTreeMap::new();
    for &rank in job.ranks(group) {
        let Some(member) = job.members.get(&rank) else {
            continue;
        };
        // The first call of a cut recorder may lack parts.
        let is_first = member.window(group).is_some_and(|it| it.0 == sequence);
        if is_first && !member.dump.is_whole {
            continue;
        }
        let calls = member.at(group, sequence);
        let Some(&entry) = calls.first() else {
            continue;
        };
        let signatures = calls.iter().map(|it| signature(job, it)).collect();
        sides
            .entry(signatures)
            .or_insert((entry, Vec::new()))
            .1
            .push(rank);
    }
    if sides.len() < 2 {
        return None;
    }
    let mut sides: Vec<Side<'_>> = sides.into_iter().collect();
    sides.sort_by_key(|it| std::cmp::Reverse(it.1.1.len()));
    let (usual, odd) = (sides[0].0.first()?, sides[1].0.first()?);
    let differs = if usual.function != odd.function || sides[0].0.len() != sides[1].0.len() {
        Differs::Function
    } else if usual.elements != odd.elements {
        Differs::Elements
    } else {
        Differs::Types
    };
    let is_skipped = skipped(job, group, sequence, &sides);
    Some(Mismatch {
        what: What::Collective(group, sequence),
        differs,
        sides: sides.into_iter().map(|it| it.1).collect(),
        is_skipped,
    })
}

/// Whether the smaller sides call now what the largest one calls next. Of two equal sides either
/// could have skipped a call, or made one too many.
fn skipped(job: &Job<'_>, group: u32, sequence: u64, sides: &[Side<'_>]) -> bool {
    if sides[0].1.1.len() == sides[1].1.1.len() {
        return false;
    }
    let mut usual = sides[0].1.1.iter().filter_map(|rank| {
        let next = job.members.get(rank)?.at(group, sequence + 1);
        (!next.is_empty()).then(|| next.iter().map(|it| signature(job, it)).collect::<Vec<_>>())
    });
    let Some(next) = usual.next() else {
        return false;
    };
    next != sides[0].0 && sides[1..].iter().all(|side| side.0 == next)
}

/// What of a call must be equal on all ranks.
pub(super) fn signature(job: &Job<'_>, entry: &Entry) -> Signature {
    let [into, out] = entry.elements;
    let (elements, types) = match job.text(entry.function) {
        // The root alone has the other side, or parts may differ between ranks.
        "gather" | "all_gather" | "allgather" => ([0, 0], entry.types),
        "scatter" | "reduce_scatter" => ([0, 0], entry.types),
        "all_to_all" | "all_to_allv" | "alltoall" | "alltoall_base" | "all_to_all_base" => {
            ([0, 0], entry.types)
        }
        it if it.contains("coalesced") || it.contains("barrier") => ([0, 0], Symbol::default()),
        _ => ([into, out], entry.types),
    };
    Signature {
        function: entry.function,
        elements,
        types,
    }
}
