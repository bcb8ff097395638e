//! Ranks that wait while a communicator is made, by NCCL's log.
//!
//! A start ends on all ranks or on none. NCCL logs when a rank begins it, with the communicator's
//! id and number of ranks; a rank that never comes logs nothing.

use std::collections::BTreeSet;

use findings::causes::Certainty::{Likely, Possible};
use findings::causes::table::hang;
use records::nccl_log::Log;
use records::nccl_log::log::{Communicator, RankFacts};
use records::nccl_log::statement::Stage;

use crate::beside;
use crate::verdict::{Line, MOST_LINES, Missing, Verdict, Wait, ranks, sentence};

/// Most communicators that are compared with each other.
const MOST_PENDING: usize = 64;

/// A GPU of a process: the same in all communicators.
type Device<'a> = (&'a str, u32, Option<u32>);

/// A communicator whose start no rank has ended.
struct Pending<'a> {
    communicator: &'a Communicator,
    id: &'a str,
    /// Its ranks that wait in the start.
    waiting: Vec<(u32, &'a RankFacts)>,
    /// Its ranks that have not begun.
    absent: Vec<u32>,
}

impl<'a> Pending<'a> {
    fn of(communicator: &'a Communicator) -> Option<Self> {
        let id = communicator.id.as_deref()?;
        let members = communicator.members.iter();
        let mut waiting = Vec::new();
        for member in members {
            match member.stage? {
                Stage::Start | Stage::Shape => waiting.push((member.rank?, member)),
                Stage::Complete | Stage::Destroyed | Stage::Aborted => return None,
            }
        }
        // A log of very many ranks may lack some; and nobody lists a million of them.
        let begun: BTreeSet<u32> = waiting.iter().map(|it| it.0).collect();
        let all = 0..communicator.ranks.min(MOST_RANKS);
        let absent = all.filter(|it| !begun.contains(it)).collect();
        (!waiting.is_empty()).then_some(Self {
            communicator,
            id,
            waiting,
            absent,
        })
    }

    fn devices(&self) -> BTreeSet<Device<'a>> {
        let devices = self.waiting.iter().map(|(_, it)| device(it));
        devices.collect()
    }

    fn ranks(&self) -> Vec<u32> {
        self.waiting.iter().map(|it| it.0).collect()
    }

    fn wait(&self) -> Wait {
        Wait {
            group: self.name(),
            call: "start of a communicator".to_owned(),
            waiting: self.ranks(),
            awaited: self.absent.clone(),
            unknown: Vec::new(),
            next: Vec::new(),
        }
    }

    fn name(&self) -> String {
        format!("{} (ranks 0-{})", self.id, self.communicator.ranks - 1)
    }

    fn lines(&self) -> impl Iterator<Item = Line> {
        self.waiting.iter().map(|(rank, it)| {
            let (file, number) = it.begun.clone().unwrap_or_default();
            let text = format!(
                "{}: rank {rank} of {} begins the start of communicator {}, and does not end it",
                it.host, self.communicator.ranks, self.id
            );
            Line::new(&file, (number > 0).then_some(number), &text)
        })
    }
}

/// Most ranks of a communicator that are looked at.
const MOST_RANKS: u32 = 1 << 16;

fn device(member: &RankFacts) -> Device<'_> {
    (&member.host, member.process, member.gpu)
}

/// What starts that have not ended say.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    pub(crate) verdicts: Vec<Verdict>,
    pub(crate) missing: Option<Missing>,
    pub(crate) waits: Vec<Wait>,
}

/// Verdicts about starts that have not ended.
pub(crate) fn starts(log: &Log) -> Starts {
    // A start that failed has ended. Functions of plug-ins fail on healthy machines, too.
    let ends_start = |place: &str| {
        ["init.cc", "group.cc"]
            .iter()
            .any(|it| place.starts_with(it))
    };
    let mut failed = log.hosts.values().flat_map(|it| it.failed.keys());
    let has_failed = failed.any(|(place, _)| ends_start(place));
    if has_failed || log.is_full {
        return Starts::default();
    }
    let pending = log.communicators.iter().filter_map(Pending::of);
    let pending: Vec<Pending<'_>> = pending.take(MOST_PENDING).collect();
    let mut found = Starts {
        waits: pending.iter().map(Pending::wait).collect(),
        ..Starts::default()
    };
    let pairs = (0..pending.len()).flat_map(|one| (0..one).map(move |other| (other, one)));
    let mut crossings = pairs.filter_map(|(one, other)| {
        let verdict = crossed(&pending[one], &pending[other])?;
        Some((one, other, verdict))
    });
    if let Some((one, other, verdict)) = crossings.next() {
        found.waits[one].next = vec![other];
        found.waits[other].next = vec![one];
        found.verdicts.push(verdict);
        return found;
    }
    for it in pending.iter().filter(|it| !it.absent.is_empty()) {
        found.verdicts.push(absent(it));
        found.missing.get_or_insert_with(|| missing(it));
    }
    if found.verdicts.is_empty() {
        found.verdicts.extend(race(log, &pending));
    }
    found
}

/// Many communicators of one host, of which some do not end a start that all their ranks began, in
/// a version that passes descriptors of memory between processes at any order.
fn race(log: &Log, pending: &[Pending<'_>]) -> Option<Verdict> {
    // NVIDIA/nccl #2379 has 52; with a few nobody saw it.
    const MANY: usize = 16;
    let [host] = log.hosts.keys().collect::<Vec<_>>()[..] else {
        return None;
    };
    let version = beside::version(log, [(2, 29, 0), (2, 33, 0)])?;
    let all = log.communicators.len();
    let waiting = pending.iter().filter(|it| it.communicator.ranks > 1);
    let waiting: Vec<&Pending<'_>> = waiting.collect();
    if all < MANY || waiting.is_empty() || beside::has_no_cumem(log, host) {
        return None;
    }
    let what = format!(
        "{} of {all} communicators of {host} do not end a start that all their ranks began, with NCCL {version}.",
        waiting.len()
    );
    let lines = waiting.iter().flat_map(|it| it.lines());
    Some(Verdict {
        hosts: vec![host.clone()],
        lines: lines.take(MOST_LINES).collect(),
        ..Verdict::new(&hang::DESCRIPTOR_RACE, Possible, what)
    })
}

/// A rank that has not begun the start of a communicator in which the others wait.
fn absent(pending: &Pending<'_>) -> Verdict {
    let own = pending.ranks();
    let wait = if own.len() == 1 { "waits" } else { "wait" };
    let have = if pending.absent.len() == 1 {
        "has"
    } else {
        "have"
    };
    let what = format!(
        "{} {wait} while communicator {} is made; {} {have} not begun that, by the log.",
        sentence(&ranks(&own)),
        pending.name(),
        ranks(&pending.absent),
    );
    // If few logs are given, the others are only not given.
    let is_few = pending.absent.len() * 2 < own.len() + pending.absent.len();
    let certainty = if is_few { Likely } else { Possible };
    Verdict {
        ranks: match is_few {
            true => pending.absent.clone(),
            false => Vec::new(),
        },
        group: Some(pending.name()),
        lines: pending.lines().take(MOST_LINES).collect(),
        ..Verdict::new(&hang::RANK_MISSING, certainty, what)
    }
}

fn missing(pending: &Pending<'_>) -> Missing {
    Missing {
        what: format!(
            "whether {} came at all: NCCL's log of a rank begins when the rank calls NCCL, and RAS knows a \
             communicator only once all ranks have met",
            ranks(&pending.absent)
        ),
        how: "give the log and py-spy's stacks of that rank's process, and the scheduler's word on its end"
            .to_owned(),
    }
}

/// Two communicators, each of which waits for ranks that wait in the other.
fn crossed(one: &Pending<'_>, other: &Pending<'_>) -> Option<Verdict> {
    let [first, second] = [one, other].map(Pending::devices);
    let fits = |lacking: &Pending<'_>, there: usize| {
        !lacking.absent.is_empty() && lacking.absent.len() <= there
    };
    let is_crossed =
        first.is_disjoint(&second) && fits(one, second.len()) && fits(other, first.len());
    if !is_crossed {
        return None;
    }
    let text = |it: &Pending<'_>| {
        let own = it.ranks();
        let wait = if own.len() == 1 { "waits" } else { "wait" };
        let hosts: BTreeSet<&str> = it.waiting.iter().map(|it| it.1.host.as_str()).collect();
        let hosts: Vec<&str> = hosts.into_iter().take(MOST_LINES).collect();
        let own = sentence(&ranks(&own));
        format!(
            "{own} of communicator {}, on {}, {wait} for {}",
            it.name(),
            hosts.join(", "),
            ranks(&it.absent)
        )
    };
    let what = format!(
        "Two communicators are made at once. {}. {}. Each lacks as many ranks as wait in the other: the ranks \
         make them in different orders.",
        text(one),
        text(other)
    );
    // Whether the ranks of one are those that the other lacks is not in the log.
    let is_same = one.communicator.ranks == other.communicator.ranks
        && one.absent == other.ranks()
        && other.absent == one.ranks();
    let lines = one.lines().take(MOST_LINES / 2);
    let lines = lines.chain(other.lines().take(MOST_LINES / 2));
    Some(Verdict {
        group: Some(format!("{} and {}", one.name(), other.name())),
        lines: lines.collect(),
        ..Verdict::new(
            &hang::GROUP_ORDER,
            if is_same { Likely } else { Possible },
            what,
        )
    })
}
