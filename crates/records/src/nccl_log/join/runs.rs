//! Runs: jobs, and attempts at one, that a log has one after the other.
//!
//! Processes of one communicator are of one run. A GPU that another process used before begins a
//! new run. A process without a communicator is of the run that begins next, or else of the one
//! before, if that has no communicator on its host.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::{Group, hosts};
use crate::nccl_log::collect::record::Process;
use crate::nccl_log::collect::strings::{Strings, Text};
use crate::nccl_log::log::Run;

/// Most runs that are kept apart.
const MOST_RUNS: usize = 64;

/// A process: its host and number.
type Key = (Text, u32);

/// Communicators that share processes.
#[derive(Debug, Default)]
struct Part {
    /// The place of its first process.
    first: usize,
    groups: Vec<usize>,
    processes: BTreeSet<Key>,
    /// By host and bus id the process that uses the GPU.
    gpus: BTreeMap<(Text, u64), u32>,
}

impl Part {
    /// Whether another process uses a GPU of this part in the other one.
    fn excludes(&self, other: &Self) -> bool {
        let differs = |(gpu, process): (&(Text, u64), &u32)| {
            self.gpus.get(gpu).is_some_and(|own| own != process)
        };
        other.gpus.iter().any(differs)
    }

    fn add(&mut self, other: Self) {
        self.first = self.first.min(other.first);
        self.groups.extend(other.groups);
        self.processes.extend(other.processes);
        self.gpus.extend(other.gpus);
    }
}

/// The runs of a log, if there are several.
pub(super) fn of(
    groups: &[Group],
    processes: &FxHashMap<Key, Process>,
    strings: &Strings,
) -> Vec<Run> {
    let mut runs: Vec<Part> = Vec::new();
    for part in parts(groups, processes) {
        let is_full = runs.len() >= MOST_RUNS;
        match runs.last_mut() {
            Some(last) if is_full || !last.excludes(&part) => last.add(part),
            _ => runs.push(part),
        }
    }
    if runs.len() < 2 {
        return Vec::new();
    }
    let known: BTreeSet<Key> = runs.iter().flat_map(|it| it.processes.clone()).collect();
    for (key, process) in processes.iter().filter(|it| !known.contains(it.0)) {
        let next = runs.iter().position(|it| process.place <= it.first);
        let next = next.unwrap_or(runs.len());
        let has_host = |it: &Part| it.gpus.keys().any(|(host, _)| *host == key.0);
        let mut near = [Some(next), next.checked_sub(1)].into_iter().flatten();
        let own = near.find(|at| runs.get(*at).is_some_and(|it| !has_host(it)));
        if let Some(run) = own.and_then(|at| runs.get_mut(at)) {
            run.processes.insert(*key);
        }
    }
    let text = |it: Text| strings.text(it).to_owned();
    let run = |mut part: Part| {
        let own = |it: &(&Key, &Process)| part.processes.contains(it.0);
        let mut begun: BTreeMap<String, u64> = BTreeMap::new();
        for (_, process) in processes.iter().filter(own) {
            if let Some((file, line)) = process.begun {
                let first = begun.entry(text(file)).or_insert(line);
                *first = line.min(*first);
            }
        }
        let hosts = hosts(processes.iter().filter(own), strings);
        part.groups.sort_unstable();
        Run {
            communicators: part.groups,
            hosts,
            begun,
        }
    };
    runs.into_iter().map(run).collect()
}

/// Communicators joined by their processes, in the order of their beginning.
fn parts(groups: &[Group], processes: &FxHashMap<Key, Process>) -> Vec<Part> {
    let mut parts: Vec<Option<Part>> = Vec::new();
    // By part the one that it was joined to; itself if to none.
    let mut joined: Vec<usize> = Vec::new();
    let mut of_process: FxHashMap<Key, usize> = FxHashMap::default();
    for (place, group) in groups.iter().enumerate() {
        let keys = group.records.iter().map(|it| (it.host, it.process));
        let keys: BTreeSet<Key> = keys.collect();
        let gpus = group.records.iter();
        let gpus = gpus.filter_map(|it| Some(((it.host, it.bus_id?), it.process)));
        let place_of = |it: &Key| processes.get(it).map_or(usize::MAX, |it| it.place);
        let mut part = Part {
            first: keys.iter().map(place_of).min().unwrap_or(usize::MAX),
            groups: vec![place],
            gpus: gpus.collect(),
            processes: keys,
        };
        let root = |mut at: usize, joined: &[usize]| {
            while joined[at] != at {
                at = joined[at];
            }
            at
        };
        let known = part.processes.iter().filter_map(|it| of_process.get(it));
        let known: BTreeSet<usize> = known.map(|it| root(*it, &joined)).collect();
        let size = |it: &usize| parts[*it].as_ref().map_or(0, |it| it.processes.len());
        let into = known.iter().copied().max_by_key(size);
        let into = into.unwrap_or(parts.len());
        if into == parts.len() {
            parts.push(None);
            joined.push(into);
        }
        of_process.extend(part.processes.iter().map(|it| (*it, into)));
        let mut all = parts[into].take().unwrap_or_default();
        if all.groups.is_empty() {
            all.first = part.first;
        }
        for other in known.into_iter().filter(|it| *it != into) {
            joined[other] = into;
            parts[other].take().into_iter().for_each(|it| all.add(it));
        }
        all.add(std::mem::take(&mut part));
        parts[into] = Some(all);
    }
    let mut parts: Vec<Part> = parts.into_iter().flatten().collect();
    parts.sort_by_key(|it| it.first);
    parts
}
