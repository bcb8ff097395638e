//! Verdicts about ranks that disagree: calls that are not equal, and who is in a group.

use findings::causes::Cause;
use findings::causes::Certainty::{self, Likely, Proved};
use findings::causes::table::hang;

use super::compare::{Differs, Mismatch};
use super::job::Job;
use super::stuck::{Stuck, What};
use crate::verdict::{MOST_LINES, Verdict, ranks};

/// A call that is not equal on all ranks.
pub(super) fn mismatched(
    job: &Job<'_>,
    mismatch: &Mismatch<'_>,
    stuck: Option<&Stuck<'_>>,
) -> Verdict {
    let sides = mismatch.sides.iter().take(4).map(|(entry, at)| {
        let frame = match job.text(entry.frame) {
            "" => String::new(),
            frame => format!(" in {frame}"),
        };
        format!("{} on {}{frame}", job.call(entry), ranks(at))
    });
    let sides: Vec<String> = sides.collect();
    let odd = mismatch.sides[1..]
        .iter()
        .flat_map(|it| it.1.iter().copied());
    let odd: Vec<u32> = odd.collect();
    let (entry, usual) = &mismatch.sides[0];
    // Nobody knows which is right, if none is that of most ranks of the group.
    let is_group = matches!(mismatch.what, What::Collective(..));
    let blamed = match is_group && 2 * usual.len() > job.ranks(entry.group).len() {
        true => odd.clone(),
        false => Vec::new(),
    };
    let cause = match mismatch.differs {
        _ if mismatch.is_skipped => &hang::CALL_SKIPPED,
        Differs::Function => &hang::COLLECTIVE_MISMATCH,
        Differs::Elements => &hang::SIZE_MISMATCH,
        Differs::Types => &hang::TYPE_MISMATCH,
    };
    let group = job.group_name(entry.group);
    let mut what = match mismatch.what {
        What::Collective(_, sequence) => {
            format!("Call {sequence} of {group} is {}.", sides.join(", but "))
        }
        What::Pair(_, from, to) => format!(
            "The call from rank {from} to rank {to} is {}.",
            sides.join(", but ")
        ),
    };
    if mismatch.is_skipped {
        what.push_str(&format!(
            " The others call next what {} calls now, so it skipped {}.",
            ranks(&odd),
            job.call(entry)
        ));
    }
    if stuck.is_none() {
        what.push_str(" The group did not stop there, so its data may be wrong.");
    }
    let lines = mismatch.sides.iter().take(MOST_LINES);
    Verdict {
        hosts: job.hosts(&blamed),
        ranks: blamed,
        group: Some(group),
        collective: Some(job.call(entry)),
        lines: lines.map(|(entry, at)| job.line(at[0], entry)).collect(),
        ..Verdict::new(cause, Proved, what)
    }
}

/// Ranks that disagree who is in a group: one name, lists of ranks that overlap.
pub(super) fn group_differs(job: &Job<'_>) -> Option<Verdict> {
    let groups = &job.recorders.groups;
    let holders = |group: u32| -> Vec<u32> {
        let all = job
            .members
            .iter()
            .filter(|it| it.1.dump.groups.contains(&group));
        all.map(|it| *it.0).collect()
    };
    let mut held = (0_u32..)
        .zip(groups)
        .filter(|it| !job.ranks(it.0).is_empty());
    let (one, other) = held.find_map(|(place, group)| {
        let strangers = group.ranks.iter().filter_map(|rank| job.members.get(rank));
        let strangers = strangers.filter(|it| !it.dump.groups.contains(&place));
        let other = strangers.flat_map(|it| &it.dump.groups).find(|it| {
            let other = &groups[**it as usize];
            other.name == group.name && other.ranks.iter().any(|it| group.ranks.contains(it))
        });
        Some((place, *other?))
    })?;
    let (mut usual, mut odd) = ((one, holders(one)), (other, holders(other)));
    if usual.1.len() < odd.1.len() {
        std::mem::swap(&mut usual, &mut odd);
    }
    let what = format!(
        "By {} it is {}, by {} of the same name {}.",
        ranks(&usual.1),
        job.group_name(usual.0),
        ranks(&odd.1),
        job.group_name(odd.0)
    );
    let blamed = match usual.1.len() > odd.1.len() {
        true => odd.1,
        false => Vec::new(),
    };
    Some(Verdict {
        hosts: job.hosts(&blamed),
        ranks: blamed,
        group: Some(job.group_name(usual.0)),
        ..Verdict::new(&hang::GROUP_DIFFERS, Proved, what)
    })
}

/// What two fingerprints of calls show: a call of one number and function differs in what it moves,
/// or one rank is some calls ahead.
pub(crate) fn fingerprints(one: &str, other: &str) -> (&'static Cause, Certainty) {
    let field = |text: &str, name: &str| -> String {
        let rest = text.split_once(name).map_or("", |it| it.1);
        let end = match rest.starts_with('[') {
            true => rest.find(']'),
            false => rest.find(','),
        };
        rest[..end.unwrap_or(rest.len())].to_owned()
    };
    let is_same = |name: &str| field(one, name) == field(other, name);
    let is_one_function = one.contains("OpType=") && is_same("OpType=");
    match (
        is_one_function,
        is_same("SequenceNumber="),
        is_same("TensorShape="),
        is_same("TensorDtypes="),
    ) {
        (true, true, false, _) => (&hang::SIZE_MISMATCH, Proved),
        (true, true, true, false) => (&hang::TYPE_MISMATCH, Proved),
        // Like calls at other places of the order.
        (true, false, true, true) => (&hang::CALL_SKIPPED, Likely),
        _ => (&hang::COLLECTIVE_MISMATCH, Proved),
    }
}
