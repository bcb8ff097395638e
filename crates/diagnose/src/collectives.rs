//! Calls that NCCL logs (`NCCL_DEBUG_SUBSYS=COLL`), compared between the ranks of a communicator.
//!
//! `Broadcast: opCount 1f sendbuff 0x1 recvbuff 0x2 count 53 datatype 4 op 0 root 0 comm 0x3
//! [nranks=4] stream 0x5`. The log has no name of a communicator that its ranks share. Ranks of one
//! communicator are those whose n-th communicator of a size is this one, if there are just as many.

use std::collections::{BTreeMap, BTreeSet};

use findings::causes::Certainty::{Likely, Possible};
use findings::causes::table::hang;
use records::nccl_log::{Communicator, Log};

use crate::process::{Process, rank_of};
use crate::verdict::{Line, Verdict, ranks, sentence};

/// Most communicators, ranks of all of them, and calls that wait for other ranks.
const MOST_GROUPS: usize = 256;
const MOST_MEMBERS: usize = 1 << 14;
const MOST_CALLS: usize = 1 << 14;

/// Most runs of one job.
const MOST_RUNS: u32 = 16;

/// Most lines that are compared.
const MOST_LINES: u32 = 1 << 20;

/// The fields of a line that count: the number of the call, the size and address of its
/// communicator, and what must be equal on all ranks.
const FIELDS: [&str; 7] = [
    "opCount", "[nranks", "comm", "count", "datatype", "op", "root",
];

/// A call: function, count, type, operation, root, a line each.
type Call = String;

/// Who made a call, how, and the line that says so.
type Made = (Process, Call, Line);

/// The calls of a communicator.
#[derive(Debug, Default)]
struct Group {
    /// By process how many calls it made.
    members: BTreeMap<Process, u64>,
    /// By number of the call who made it and how, until all did.
    calls: BTreeMap<u64, Vec<Made>>,
    /// The first call in which ranks differ.
    differs: Option<(u64, Vec<Made>)>,
    /// A process made several calls of one number, as in a group of calls: nobody knows which of
    /// them belong together.
    is_repeated: bool,
}

/// The calls of all communicators.
#[derive(Debug, Default)]
pub(crate) struct Collectives {
    /// By process the communicators that it uses: address and size.
    of_process: BTreeMap<Process, Vec<(String, u32)>>,
    /// By size of a communicator, its place among those of its size in a process, and the run.
    groups: BTreeMap<(u32, usize, u32), Group>,
    members: usize,
    lines: u32,
}

impl Collectives {
    /// Notes a line. `text`: the message.
    pub(crate) fn add(&mut self, process: Process, text: &str, line: impl FnOnce() -> Line) {
        if self.lines >= MOST_LINES {
            return;
        }
        self.lines += 1;
        let mut fields = [""; FIELDS.len()];
        let ends = memchr::memchr3_iter(b' ', b']', b'=', text.as_bytes());
        let (mut begin, mut field) = (0, None);
        for end in ends.chain([text.len()]) {
            let word = &text[begin..end];
            begin = end + 1;
            match field.take() {
                Some(place) => fields[place] = word,
                None => field = FIELDS.iter().position(|it| *it == word),
            }
            field = field.filter(|it| fields[*it].is_empty());
        }
        let [number, size, address, call @ ..] = fields;
        let function = text.split(':').next().unwrap_or(text).trim();
        let read = || {
            let numbers = (u64::from_str_radix(number, 16).ok()?, size.parse().ok()?);
            let is_whole = !address.is_empty() && call.iter().all(|it| !it.is_empty());
            let [count, kind, operation, root] = call;
            let call = [function, count, kind, operation, root].join("\n");
            is_whole.then_some((numbers.0, numbers.1, address, call))
        };
        let Some((number, size, address, call)) = read() else {
            return;
        };
        // Sends and receives are of two ranks alone.
        if size < 2 || matches!(function, "Send" | "Recv") {
            return;
        }
        let own = self.of_process.entry(process.clone()).or_default();
        let mut alike = own.iter().filter(|it| it.1 == size);
        let place = match alike.position(|it| it.0 == address) {
            Some(place) => place,
            None if self.members < MOST_MEMBERS => {
                self.members += 1;
                own.push((address.to_owned(), size));
                own.iter().filter(|it| it.1 == size).count() - 1
            }
            None => return,
        };
        let Some(run) = self.run(size, place, &process) else {
            return;
        };
        let key = (size, place, run);
        if self.groups.len() >= MOST_GROUPS && !self.groups.contains_key(&key) {
            return;
        }
        let group = self.groups.entry(key).or_default();
        let last = group.members.entry(process.clone()).or_default();
        *last = number.max(*last);
        if group.differs.is_some()
            || (group.calls.len() >= MOST_CALLS && !group.calls.contains_key(&number))
        {
            return;
        }
        let calls = group.calls.entry(number).or_default();
        group.is_repeated |= calls.iter().any(|it| it.0 == process);
        calls.push((process, call, line()));
        if calls.len() >= size as usize {
            let all = group.calls.remove(&number).unwrap_or_default();
            if all.iter().any(|it| it.1 != all[0].1) {
                group.differs = Some((number, all));
            }
        }
    }

    /// The run of a process. Other processes than the first ones, once those are all, are of
    /// another run.
    fn run(&self, size: u32, place: usize, process: &Process) -> Option<u32> {
        let is_other = |run: &u32| {
            let of_run = self.groups.get(&(size, place, *run));
            let members = of_run.map(|it| &it.members);
            members.is_some_and(|it| it.len() >= size as usize && !it.contains_key(process))
        };
        (0..MOST_RUNS).find(|run| !is_other(run))
    }

    /// Verdicts: ranks that make different calls, or fewer if the job hangs.
    pub(crate) fn verdicts(self, log: &Log, is_hang: bool) -> Vec<Verdict> {
        // What was left out would look like calls that were never made.
        let is_hang = is_hang && self.lines < MOST_LINES;
        // With more processes, several communicators are taken for one.
        let more = self.groups.keys().filter(|it| it.2 > 0);
        let more: BTreeSet<(u32, usize)> = more.map(|it| (it.0, it.1)).collect();
        let whole = self.groups.into_iter();
        let is_whole = |(size, place, _): (u32, usize, u32), group: &Group| {
            !group.is_repeated
                && group.members.len() == size as usize
                && (!more.contains(&(size, place)) || group.is_joined(log))
        };
        let whole = whole.filter(|it| is_whole(it.0, &it.1));
        whole
            .filter_map(|(_, group)| group.verdict(log, is_hang))
            .collect()
    }
}

impl Group {
    /// Whether all its processes are in one communicator of the log.
    fn is_joined(&self, log: &Log) -> bool {
        let has = |all: &Communicator, process: &Process| {
            let mut members = all.members.iter();
            members.any(|it| it.process == process.number && it.host == process.host)
        };
        let mut all = log.communicators.iter();
        all.any(|it| self.members.keys().all(|process| has(it, process)))
    }

    fn verdict(self, log: &Log, is_hang: bool) -> Option<Verdict> {
        let of = |all: &[Process]| {
            let known: BTreeSet<u32> = all.iter().filter_map(|it| rank_of(log, it)).collect();
            let hosts: BTreeSet<String> = all.iter().map(|it| it.host.clone()).collect();
            (
                known.into_iter().collect::<Vec<u32>>(),
                hosts.into_iter().collect::<Vec<String>>(),
            )
        };
        if let Some((number, all)) = self.differs {
            let mut sides: BTreeMap<&Call, Vec<usize>> = BTreeMap::new();
            for (place, (_, call, _)) in all.iter().enumerate() {
                sides.entry(call).or_default().push(place);
            }
            let mut sides: Vec<(&Call, Vec<usize>)> = sides.into_iter().collect();
            sides.sort_by_key(|it| std::cmp::Reverse(it.1.len()));
            let [(usual, most), (other, few), ..] = &sides[..] else {
                return None;
            };
            let [usual, other] = [usual, other].map(|it| it.lines().collect::<Vec<&str>>());
            let cause = match (usual[0] == other[0], usual[1] == other[1]) {
                (false, _) => &hang::COLLECTIVE_MISMATCH,
                (true, false) => &hang::SIZE_MISMATCH,
                (true, true) if usual[2] == other[2] => &hang::COLLECTIVE_MISMATCH,
                (true, true) => &hang::TYPE_MISMATCH,
            };
            // Of equally many, nobody knows which are right.
            let at: Vec<Process> = few.iter().map(|it| all[*it].0.clone()).collect();
            let (known, hosts) = match few.len() < most.len() {
                true => of(&at),
                false => (Vec::new(), Vec::new()),
            };
            let what = format!(
                "Call {number} of a communicator of {} ranks is {} on {} of them and {} on {}.",
                all.len(),
                say(&usual),
                most.len(),
                say(&other),
                few.len()
            );
            return Some(Verdict {
                ranks: known,
                hosts,
                collective: Some(usual[0].to_owned()),
                lines: [most[0], few[0]].map(|it| all[it].2.clone()).to_vec(),
                ..Verdict::new(cause, Likely, what)
            });
        }
        let most = *self.members.values().max()?;
        let late: Vec<Process> = self
            .members
            .iter()
            .filter(|it| *it.1 < most)
            .map(|it| it.0.clone())
            .collect();
        // Ranks of a running job are some calls apart; half of them are not late.
        if !is_hang || late.is_empty() || late.len() * 2 > self.members.len() {
            return None;
        }
        let (known, hosts) = of(&late);
        let who = match known.is_empty() {
            true => format!("{} processes", late.len()),
            false => ranks(&known),
        };
        let what = format!(
            "{} made fewer calls than the others, whose last is call {most}.",
            sentence(&who)
        );
        let lines = self
            .calls
            .get(&most)
            .into_iter()
            .flatten()
            .take(2)
            .map(|it| it.2.clone());
        Some(Verdict {
            ranks: known,
            hosts,
            lines: lines.collect(),
            ..Verdict::new(&hang::RANK_MISSING, Possible, what)
        })
    }
}

/// A call in words, by its lines.
fn say(call: &[&str]) -> String {
    let [function, count, kind, operation, root] = call else {
        return String::new();
    };
    format!("{function} of {count} (type {kind}, operation {operation}, root {root})")
}
