//! The calls of each rank in each group.

use std::collections::{BTreeMap, BTreeSet};

use records::evidence::Recorders;
use records::evidence::recorder::{Dump, Entry, Group, State};
use rustc_hash::FxHashMap;

use crate::verdict::{Line, Missing, ranges};

/// A rank's part of a job.
#[derive(Debug)]
pub(super) struct Member<'a> {
    pub(super) dump: &'a Dump,
    /// Its calls of collectives by group, in order.
    pub(super) calls: BTreeMap<u32, Vec<&'a Entry>>,
    /// Its oldest call that did not end.
    pub(super) front: Option<&'a Entry>,
}

/// The recorders of a job, by rank and group.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) recorders: &'a Recorders,
    pub(super) members: BTreeMap<u32, Member<'a>>,
    /// The ranks of each group.
    pub(super) groups: Vec<Vec<u32>>,
    hosts: &'a BTreeMap<u32, String>,
    /// The latest time in any recorder, ns.
    latest: u64,
    nameless: usize,
    /// Recorders that other ranks wrote than their names say.
    misnamed: Vec<&'a str>,
    /// Recorders that ended long before the others, or before another one of their rank.
    stale: Vec<&'a str>,
}

/// A recorder that ended so long before others is of another run, ns. Calls of a job that hangs end
/// within its time limit, 10 minutes if none is set.
const STALE: u64 = 3_600_000_000_000;

/// A wait of this length is no longer that of a running job, ns.
const LONG: u64 = 60_000_000_000;

impl<'a> Job<'a> {
    pub(super) fn of(recorders: &'a Recorders, hosts: &'a BTreeMap<u32, String>) -> Self {
        let mut dumps: BTreeMap<u32, &Dump> = BTreeMap::new();
        let (misnamed, named): (Vec<&Dump>, Vec<&Dump>) =
            recorders.dumps.iter().partition(|it| it.is_misnamed);
        let latest = named.iter().map(|it| end(it)).max().unwrap_or(0);
        let mut nameless = 0;
        let mut stale = Vec::new();
        for dump in named {
            let Some(rank) = dump.rank else {
                nameless += 1;
                continue;
            };
            if (1..latest.saturating_sub(STALE)).contains(&end(dump)) {
                stale.push(dump.input.as_str());
                continue;
            }
            // Of several recorders of one rank the latest counts.
            let mut older = dump;
            let known = dumps.entry(rank).or_insert(dump);
            if end(dump) > end(known) {
                std::mem::swap(known, &mut older);
            }
            if !std::ptr::eq(older, *known) {
                stale.push(older.input.as_str());
            }
        }
        let members: BTreeMap<u32, Member<'_>> = dumps
            .into_iter()
            .map(|(rank, dump)| (rank, Member::of(dump)))
            .collect();
        let groups = groups(recorders, &members);
        Self {
            recorders,
            members,
            groups,
            hosts,
            latest,
            nameless,
            misnamed: misnamed.iter().map(|it| it.input.as_str()).collect(),
            stale,
        }
    }

    /// What the recorders lack.
    pub(super) fn missing(&self) -> Vec<Missing> {
        let mut missing = Vec::new();
        if self.nameless > 0 {
            missing.push(Missing {
                what: format!("the rank of {} flight recorders", self.nameless),
                how: "name the files by rank, as PyTorch does: nccl_trace_rank_0, …".to_owned(),
            });
        }
        if let Some(first) = self.misnamed.first() {
            missing.push(Missing {
                what: format!(
                    "the ranks of {} flight recorders that other ranks wrote than their names say, such as {first}",
                    self.misnamed.len()
                ),
                how: "name each file by the rank that wrote it".to_owned(),
            });
        }
        if let Some(first) = self.stale.first() {
            missing.push(Missing {
                what: format!(
                    "the newest flight recorders: {} are older than others and left out, such as {first}",
                    self.stale.len()
                ),
                how: "give the files of one run, which were written at one time".to_owned(),
            });
        }
        let all: BTreeSet<u32> = self.groups.iter().flatten().copied().collect();
        let absent: Vec<u32> = all
            .into_iter()
            .filter(|it| !self.members.contains_key(it))
            .collect();
        if !absent.is_empty() {
            missing.push(Missing {
                what: format!("the flight recorders of {}", crate::verdict::ranks(&absent)),
                how: "TORCH_NCCL_DEBUG_INFO_TEMP_FILE names where each rank writes; copy the files of all hosts"
                    .to_owned(),
            });
        }
        if self.recorders.is_full {
            missing.push(Missing {
                what: "the oldest calls: the recorders have more than are kept".to_owned(),
                how: "TORCH_NCCL_TRACE_BUFFER_SIZE=2000 is enough for most jobs".to_owned(),
            });
        }
        missing
    }

    pub(super) fn text(&self, symbol: records::evidence::symbols::Symbol) -> &str {
        self.recorders.symbols.text(symbol)
    }

    fn group(&self, group: u32) -> Option<&Group> {
        self.recorders.groups.get(group as usize)
    }

    /// The ranks of a group, sorted.
    pub(super) fn ranks(&self, group: u32) -> &[u32] {
        self.groups.get(group as usize).map_or(&[], Vec::as_slice)
    }

    /// A group's name for people.
    pub(super) fn group_name(&self, group: u32) -> String {
        let Some(it) = self.group(group) else {
            return String::new();
        };
        let (name, description) = (self.text(it.name), self.text(it.description));
        let ranks = self.ranks(group);
        let of = match ranks.len() {
            0 => String::new(),
            _ => format!(" (ranks {})", ranges(ranks)),
        };
        match description {
            "" | "undefined" => format!("group {name}{of}"),
            description => format!("group {description}{of}"),
        }
    }

    /// A call for people: `all_reduce #12`.
    pub(super) fn call_name(&self, entry: &Entry) -> String {
        format!("{} #{}", self.text(entry.function), entry.sequence)
    }

    /// A call with its sizes: `all_reduce #12 of [1024] Float`.
    pub(super) fn call(&self, entry: &Entry) -> String {
        let sizes = match self.text(entry.sizes[0]) {
            "" => self.text(entry.sizes[1]),
            sizes => sizes,
        };
        let of = match (sizes, self.text(entry.types)) {
            ("", _) => String::new(),
            (sizes, types) => format!(" of {sizes} {types}"),
        };
        format!("{}{of}", self.call_name(entry))
    }

    /// A line of evidence: what a rank's recorder says of a call.
    pub(super) fn line(&self, rank: u32, entry: &Entry) -> Line {
        let state = match entry.state {
            State::Scheduled => "scheduled",
            State::Started => "started",
            State::Completed => "completed",
        };
        let frame = match self.text(entry.frame) {
            "" => String::new(),
            frame => format!(", called in {frame}"),
        };
        let input = self.members.get(&rank).map_or("", |it| &it.dump.input);
        let text = format!(
            "rank {rank}: {} in {}, {state}{frame}",
            self.call(entry),
            self.group_name(entry.group)
        );
        Line::new(input, None, &text)
    }

    /// The host of a rank, if it is known.
    pub(super) fn host(&self, rank: u32) -> Option<&str> {
        let member = self
            .members
            .get(&rank)
            .and_then(|it| it.dump.host.as_deref());
        member.or_else(|| self.hosts.get(&rank).map(String::as_str))
    }

    /// The hosts of ranks, each once.
    pub(super) fn hosts(&self, ranks: &[u32]) -> Vec<String> {
        let hosts: BTreeSet<&str> = ranks.iter().filter_map(|it| self.host(*it)).collect();
        hosts.into_iter().map(str::to_owned).collect()
    }

    /// Whether a call waits longer than any call of a running job, by the times of the recorders.
    pub(super) fn is_old(&self) -> bool {
        let mut fronts = self.members.values().filter_map(|it| it.front);
        fronts.any(|it| self.latest.saturating_sub(it.times[0]) >= LONG)
    }
}

impl<'a> Member<'a> {
    fn of(dump: &'a Dump) -> Self {
        let mut calls: BTreeMap<u32, Vec<&Entry>> = BTreeMap::new();
        for entry in dump.entries.iter().filter(|it| !it.is_point_to_point) {
            calls.entry(entry.group).or_default().push(entry);
        }
        for of_group in calls.values_mut() {
            of_group.sort_by_key(|it| (it.sequence, it.record));
        }
        Self {
            dump,
            calls,
            front: dump.entries.iter().find(|it| it.state != State::Completed),
        }
    }

    /// The calls of one number in a group.
    pub(super) fn at(&self, group: u32, sequence: u64) -> &[&'a Entry] {
        let calls = self.calls.get(&group).map_or(&[][..], Vec::as_slice);
        let from = calls.partition_point(|it| it.sequence < sequence);
        let to = calls.partition_point(|it| it.sequence <= sequence);
        &calls[from..to]
    }

    /// The numbers of its first and last calls in a group.
    pub(super) fn window(&self, group: u32) -> Option<(u64, u64)> {
        let calls = self.calls.get(&group)?;
        Some((calls.first()?.sequence, calls.last()?.sequence))
    }

    /// Whether it did not call a collective of a group: older calls of the group are known, or all
    /// calls are.
    pub(super) fn never_called(&self, group: u32, sequence: u64) -> bool {
        match self.window(group) {
            Some((_, last)) => last < sequence,
            None => self.dump.is_whole,
        }
    }
}

/// The latest time in a recorder, ns; 0 if it has none.
fn end(dump: &Dump) -> u64 {
    let times = dump.entries.iter().flat_map(|it| it.times);
    times.max().unwrap_or(0)
}

/// The ranks of each group: those that the recorders list, or else those that call something in it.
/// Groups of recorders that are left out have none.
fn groups(recorders: &Recorders, members: &BTreeMap<u32, Member<'_>>) -> Vec<Vec<u32>> {
    let mut callers: FxHashMap<u32, BTreeSet<u32>> = FxHashMap::default();
    for (rank, member) in members {
        for group in member
            .dump
            .entries
            .iter()
            .map(|it| it.group)
            .chain(member.dump.groups.iter().copied())
        {
            callers.entry(group).or_default().insert(*rank);
        }
    }
    let all = recorders.groups.iter().enumerate();
    all.map(|(place, group)| {
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        match callers.remove(&place) {
            Some(_) if !group.ranks.is_empty() => group.ranks.clone(),
            callers => callers.into_iter().flatten().collect(),
        }
    })
    .collect()
}
