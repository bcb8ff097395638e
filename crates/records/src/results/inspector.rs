//! Collectives of a job that NCCL's Inspector timed, as tables.
//!
//! A rank that comes early waits for the others inside the collective. So a call takes as long as
//! it runs on the rank that comes last, the least of its times, which all ranks' files tell.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use program::Collective;

use crate::evidence::inspector::{self, ALL_WAIT, Ended};
use crate::results::values::{Call, Damage, Figures, Row, Table, Timing, Tool, agrees};

/// Most communicators, sizes of one, ranks of all, calls of a size, and calls of all.
const MOST_GROUPS: usize = 1 << 10;
const MOST_SIZES: usize = 1 << 6;
const MOST_RANKS: usize = 1 << 18;
const MOST_OF_SIZE: usize = 1 << 8;
const MOST_CALLS: usize = 1 << 18;

/// Longest object that is written over several lines, bytes.
const MOST_BYTES: usize = 16 << 10;

/// Calls by communicator, its ranks, and collective, of any number of files.
#[derive(Debug, Clone, Default)]
pub struct Timed {
    groups: BTreeMap<(String, u32, Collective), Group>,
    times: u64,
    calls: usize,
    ranks: usize,
    /// The lines so far of an object that is written over several.
    open: Option<String>,
    /// Something of this file was left out because too much is kept.
    is_full: bool,
}

/// The calls of a communicator and collective.
#[derive(Debug, Clone, Default)]
struct Group {
    file: String,
    nodes: Option<u32>,
    /// The host of each rank that wrote.
    hosts: BTreeMap<u32, String>,
    /// By bytes of the whole message.
    sizes: BTreeMap<u64, Calls>,
    /// An empty table that counts calls whose bandwidth is not their size by their time.
    damaged: Table,
    /// Calls that the processor's clock timed, which counts the launch, too.
    launched: u64,
}

/// Calls of a size by their numbers: all, or those whose mixed numbers end in so many zeros.
#[derive(Debug, Clone, Default)]
struct Calls {
    zeros: u32,
    by_number: BTreeMap<u64, Call>,
}

impl Calls {
    /// Whether a call is kept. All ranks keep the same ones.
    fn keeps(&self, number: u64) -> bool {
        // Knuth's multiplicative hashing: calls of one size may be every 64th of a communicator.
        let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).swap_bytes();
        mixed.trailing_zeros() >= self.zeros
    }

    fn add(&mut self, number: u64, call: Call) {
        if !self.keeps(number) {
            return;
        }
        let known = self.by_number.entry(number);
        known
            .and_modify(|it| {
                it.time_us = it.time_us.min(call.time_us);
                it.when = it.when.max(call.when);
                it.ranks = it.ranks.saturating_add(1);
            })
            .or_insert(call);
        while self.by_number.len() > MOST_OF_SIZE && self.zeros < u64::BITS {
            self.zeros += 1;
            let kept = std::mem::take(&mut self.by_number).into_iter();
            self.by_number = kept.filter(|it| self.keeps(it.0)).collect();
        }
    }
}

impl Timed {
    /// Takes a line of a file. Returns `true` if Inspector wrote it.
    pub(super) fn line(&mut self, file: &str, number: u64, line: &str) -> bool {
        let begins = line.starts_with("{\"") || line.trim_end() == "{";
        if let Some(open) = self.open.as_mut().filter(|_| !begins) {
            open.push_str(line);
            let is_end = line.starts_with('}');
            let ended = is_end.then(|| inspector::read(open)).flatten();
            let is_over = is_end || open.len() > MOST_BYTES;
            self.open = self.open.take().filter(|_| !is_over);
            return ended.is_some_and(|it| self.add(file, number, it));
        }
        self.open = None;
        match line.trim_end() {
            "{" => self.open = Some("{".to_owned()),
            whole if whole.starts_with('{') && whole.contains(inspector::WORD) => {
                return inspector::read(whole).is_some_and(|it| self.add(file, number, it));
            }
            _ => {}
        }
        false
    }

    /// Begins a file.
    pub(super) fn begin(&mut self) {
        (self.open, self.is_full) = (None, false);
    }

    /// Whether something of this file was left out because too much is kept.
    pub(super) const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns `true` if the collective is one that tables have.
    fn add(&mut self, file: &str, line: u64, ended: Ended) -> bool {
        let Some(collective) = ended.collective.filter(|it| ALL_WAIT.contains(it)) else {
            return false;
        };
        self.times += 1;
        let key = (ended.communicator, ended.ranks, collective);
        let is_new = !self.groups.contains_key(&key);
        if (is_new && self.groups.len() >= MOST_GROUPS) || self.calls >= MOST_CALLS {
            self.is_full = true;
            return true;
        }
        let group = self.groups.entry(key).or_default();
        if is_new {
            file.clone_into(&mut group.file);
        }
        if !ended.is_gpu_time {
            group.launched += 1;
            return true;
        }
        group.nodes = group.nodes.or(ended.nodes);
        if let Entry::Vacant(new) = group.hosts.entry(ended.rank) {
            if self.ranks >= MOST_RANKS {
                self.is_full = true;
                return true;
            }
            self.ranks += 1;
            new.insert(ended.host);
        }
        // Times are cut to whole microseconds.
        let [least, most] = [ended.time.max(1), ended.time.saturating_add(1)].map(|it| it as f64);
        let is_size = |bytes: u64| {
            let printed = ended.algorithm_gbps;
            let [most, least] = [least, most].map(|time| bytes as f64 / time / 1e3);
            printed.is_some_and(|it| {
                it >= least && it <= most || agrees(it, least) || agrees(it, most)
            })
        };
        // Where ranks hold pieces, a piece is written, and the bandwidth is that of all of them.
        let all = ended.bytes.saturating_mul(u64::from(ended.ranks));
        let bytes = match (collective.splits_message(), ended.algorithm_gbps) {
            (true, None) => all,
            (true, _) if is_size(all) => all,
            (false, None) => ended.bytes,
            (_, Some(_)) if is_size(ended.bytes) => ended.bytes,
            _ => {
                group
                    .damaged
                    .leave_out(Damage::Contradiction(ended.bytes), line);
                return true;
            }
        };
        if !group.sizes.contains_key(&bytes) && group.sizes.len() >= MOST_SIZES {
            self.is_full = true;
            return true;
        }
        let calls = group.sizes.entry(bytes).or_default();
        self.calls -= calls.by_number.len();
        let call = Call {
            when: ended.when / 1_000_000,
            time_us: ended.time.max(1) as f64,
            ranks: 1,
        };
        calls.add(ended.sequence, call);
        self.calls += calls.by_number.len();
        true
    }

    /// Times that were read, of all ranks.
    pub const fn times(&self) -> u64 {
        self.times
    }

    /// A table for each communicator and collective.
    pub fn tables(self) -> impl Iterator<Item = Table> {
        let groups = self.groups.into_iter();
        groups.map(|((communicator, ranks, collective), group)| {
            group.table(communicator, ranks, collective)
        })
    }
}

impl Group {
    fn table(self, communicator: String, ranks: u32, collective: Collective) -> Table {
        let hosts: BTreeSet<&String> = self.hosts.values().filter(|it| !it.is_empty()).collect();
        let is_whole = self.hosts.len() == ranks as usize;
        let known = is_whole.then_some(hosts.len() as u32).filter(|it| *it > 0);
        let mut table = Table {
            file: self.file,
            tool: Tool::Inspector,
            collective: Some(collective),
            ranks: Some(ranks),
            hosts: self.nodes.filter(|it| *it > 0).or(known),
            ..self.damaged
        };
        // Ranks may write different calls. Those that all of them wrote say most.
        let all = self.sizes.values().flat_map(|it| it.by_number.values());
        let most = all.map(|it| it.ranks).max().unwrap_or(0).min(ranks);
        let mut timing = Timing {
            communicator,
            ranks: most,
            hosts: hosts.into_iter().cloned().collect(),
            launched: self.launched,
            calls: Vec::new(),
        };
        for (bytes, calls) in self.sizes {
            let calls = calls.by_number.into_values();
            let mut calls: Vec<Call> = calls.filter(|it| it.ranks >= most).collect();
            calls.sort_by_key(|it| it.when);
            let mut times: Vec<f64> = calls.iter().map(|it| it.time_us).collect();
            times.sort_by(f64::total_cmp);
            let Some(&time_us) = times.get(times.len() / 2) else {
                continue;
            };
            let algorithm_gbps = bytes as f64 / time_us / 1e3;
            table.rows.push(Row {
                bytes,
                count: bytes,
                out_of_place: Some(Figures {
                    time_us,
                    algorithm_gbps,
                    bus_gbps: algorithm_gbps * collective.bus_factor(ranks),
                    wrong: None,
                }),
                ..Row::default()
            });
            timing.calls.push(calls);
        }
        table.timing = Some(Box::new(timing));
        table
    }
}
