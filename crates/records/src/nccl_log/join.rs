//! Ranks of a communicator, joined.

mod runs;

use std::collections::{BTreeMap, BTreeSet};

use program::Collective;
use rustc_hash::FxHashMap;

use crate::nccl_log::collect::record::{GraphText, Process, Record};
use crate::nccl_log::collect::strings::{Strings, Text};
use crate::nccl_log::collect::{Collector, Warning};
use crate::nccl_log::log::{Communicator, Decisions, Graph, HostFacts, Log, RankFacts};
use crate::nccl_log::odd;

impl Collector {
    /// Joins what was collected.
    pub fn finish(mut self) -> Log {
        self.attach_connections();
        let records = std::mem::take(&mut self.records);
        let groups = group(records);
        let strings = &self.strings;
        let hosts = hosts(self.processes.iter(), strings);
        let runs = runs::of(&groups, &self.processes, strings);
        let communicators = groups.into_iter().map(|group| communicator(group, strings));
        let mut warnings: Vec<Warning> = self.warnings.into_values().collect();
        warnings.sort_by_key(|it| std::cmp::Reverse(it.count));
        let mut unknown: Vec<(String, u64)> = self.unknown.into_iter().collect();
        unknown.sort_by_key(|it| std::cmp::Reverse(it.1));
        Log {
            files: self.files,
            counts: self.counts,
            versions: self.versions,
            communicators: communicators.collect(),
            odd_hosts: odd::hosts(&hosts),
            hosts,
            runs,
            operations: self.operations,
            gpus: self.gpus,
            warnings,
            unknown,
            broken: self.broken,
            is_full: self.is_full,
        }
    }

    /// Connections that a thread made after the initialisation belong to the process's last
    /// communicator on that GPU.
    fn attach_connections(&mut self) {
        for at in 0..self.records.len() {
            if !self.records[at].is_connections_only() {
                continue;
            }
            let record = &self.records[at];
            let key = (record.host, record.process, record.gpu);
            let Some(of) = self.latest.get(&key).copied().filter(|of| *of != at) else {
                continue;
            };
            let record = std::mem::take(&mut self.records[at]);
            self.records[of].add_connections(record);
        }
        self.records.retain(|record| {
            record.stage.is_some()
                || record.own_rank().is_some()
                || !record.transports.is_empty()
                || !record.rings.is_empty()
                || !record.graphs.is_empty()
                || !record.system.is_empty()
        });
    }
}

/// Records of one communicator.
#[derive(Default)]
struct Group {
    id: Option<Text>,
    ranks: Option<u32>,
    taken: BTreeSet<u32>,
    hosts: BTreeSet<Text>,
    devices: BTreeSet<(Text, u32, Option<u32>)>,
    records: Vec<Record>,
}

impl Group {
    fn add(&mut self, record: Record) {
        self.ranks = self.ranks.or(record.ranks);
        self.taken.extend(record.own_rank());
        self.hosts.insert(record.host);
        self.devices
            .insert((record.host, record.process, record.gpu));
        self.records.push(record);
    }

    /// Whether a record without an id may belong to this group.
    fn may_have(&self, record: &Record) -> bool {
        let same_size = match (self.ranks, record.ranks) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        let is_free = match record.own_rank() {
            Some(rank) => {
                !self.taken.contains(&rank) && self.ranks.is_none_or(|ranks| rank < ranks)
            }
            None => true,
        };
        let device = (record.host, record.process, record.gpu);
        // The line with the id may have been lost; the rank then is missing there.
        let is_missing = self.id.is_none() || record.own_rank().is_some();
        is_missing && same_size && is_free && !self.devices.contains(&device)
    }
}

/// Groups records by the communicator's id; without ids in the order of their beginning, on the
/// same host if possible.
fn group(records: Vec<Record>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut by_id: FxHashMap<Text, usize> = FxHashMap::default();
    let (with, without): (Vec<_>, Vec<_>) = records.into_iter().partition(|it| it.id.is_some());
    for record in with.into_iter().chain(without) {
        if let Some(id) = record.id {
            let at = *by_id.entry(id).or_insert(groups.len());
            if at == groups.len() {
                groups.push(Group {
                    id: Some(id),
                    ..Group::default()
                });
            }
            groups[at].add(record);
            continue;
        }
        // Old groups are full or lost; few of them are looked at.
        let near = groups.len().saturating_sub(MOST_OPEN_GROUPS);
        let fits = |at: &usize| groups[*at].may_have(&record);
        let on_host = |at: &usize| groups[*at].hosts.contains(&record.host);
        let same = (near..groups.len()).filter(fits).find(on_host);
        let at = same.or_else(|| (near..groups.len()).find(fits));
        let at = at.unwrap_or_else(|| {
            groups.push(Group::default());
            groups.len() - 1
        });
        groups[at].add(record);
    }
    groups
}

/// Groups without ids that may still get a rank.
const MOST_OPEN_GROUPS: usize = 64;

fn communicator(group: Group, strings: &Strings) -> Communicator {
    let mut group = group;
    group
        .records
        .sort_by_key(|it| (it.own_rank().is_none(), it.own_rank()));
    let named = group.taken.last().map_or(0, |last| last + 1);
    let ringed = group.records.iter().flat_map(|it| it.rings.values());
    let ringed = ringed.flatten().map(|rank| rank + 1).max().unwrap_or(0);
    let ranks = group.ranks.unwrap_or(named.max(ringed));
    let nodes = group.records.iter().find_map(|it| it.nodes);
    let hosts = u32::try_from(group.hosts.len()).unwrap_or(u32::MAX);
    let members: Vec<RankFacts> = group.records.iter().map(|it| facts(it, strings)).collect();
    let decisions = decisions(group.records, ranks, strings);
    Communicator {
        id: group.id.map(|id| strings.text(id).to_owned()),
        ranks,
        nodes: nodes.unwrap_or(hosts),
        odd_ranks: odd::ranks(&members),
        members,
        decisions,
    }
}

fn facts(record: &Record, strings: &Strings) -> RankFacts {
    let text = |it: &Text| strings.text(*it).to_owned();
    let (seconds, phases) = match &record.timings {
        Some((total, phases)) => {
            let phases = phases.iter().map(|(name, time)| (text(name), *time));
            (Some(*total), phases.collect())
        }
        None => (None, Vec::new()),
    };
    let view = record.system.iter().map(|line| view(strings.text(*line)));
    RankFacts {
        rank: record.own_rank(),
        host: text(&record.host),
        process: record.process,
        gpu: record.gpu,
        nvml_device: record.nvml_device,
        bus_id: record.bus_id,
        stage: record.stage,
        begun: record.begun.map(|(file, line)| (text(&file), line)),
        connected: record.connected.iter().map(text).collect(),
        counts: record.counts,
        nvls_available: record.nvls_available,
        seconds,
        phases,
        transports: record
            .transports
            .iter()
            .map(|(kind, n)| (text(kind), *n))
            .collect(),
        ports: record
            .ports
            .iter()
            .map(|((net, dev), n)| ((text(net), *dev), *n))
            .collect(),
        view: view.collect(),
    }
}

/// A line of the machine's view without the device's number: `+ PCI[24.0] - GPU`.
fn view(line: &str) -> String {
    let end = line.rfind('/').unwrap_or(line.len());
    match line.starts_with("CPU/") {
        true => "CPU".to_owned(),
        false => line[..end].split('/').next().unwrap_or("").to_owned(),
    }
}

fn decisions(records: Vec<Record>, ranks: u32, strings: &Strings) -> Decisions {
    let mut all = Decisions::default();
    let mut next: BTreeMap<u32, BTreeMap<u32, u32>> = BTreeMap::new();
    for record in records {
        let own = record.own_rank();
        for (channel, ring) in record.rings {
            let longest = all.rings.entry(channel).or_default();
            if ring.len() > longest.len() {
                *longest = ring;
            }
        }
        if let Some(rank) = own {
            for (channel, (previous, after)) in &record.ring_neighbors {
                let ring = next.entry(*channel).or_default();
                ring.insert(rank, *after);
                ring.extend(previous.map(|previous| (previous, rank)));
            }
        }
        all.trees.extend(record.trees);
        all.trees_cut |= record.trees_cut;
        all.nvls_heads.extend(record.nvls_heads);
        all.nvls_trees.extend(record.nvls_trees);
        for (ends, connected) in record.connections {
            let own = all.connections.entry(ends).or_default();
            own.local = own.local.or(connected.local);
            own.sender = own.sender.or(connected.sender);
            own.receiver = own.receiver.or(connected.receiver);
        }
        all.counts = all.counts.or(record.counts);
        all.nvls = all.nvls.or(record.nvls);
        all.p2p_chunk = all.p2p_chunk.or(record.p2p_chunk);
        if all.model.is_empty() {
            all.model = record.model;
        }
        for ((collective, bytes), taken) in record.choices {
            let pieces = match collective {
                Collective::AllGather | Collective::ReduceScatter => u64::from(ranks.max(1)),
                _ => 1,
            };
            let whole = (collective, bytes.saturating_mul(pieces));
            all.choices.entry(whole).or_insert(taken);
        }
        if all.graphs.is_empty() {
            all.graphs = record.graphs.iter().map(|it| graph(it, strings)).collect();
        }
        if all.system.is_empty() {
            let lines = record.system.iter().map(|it| strings.text(*it).to_owned());
            all.system = lines.collect();
        }
    }
    complete_rings(&mut all, &next, ranks);
    all
}

fn graph(graph: &GraphText, strings: &Strings) -> Graph {
    Graph {
        pattern: graph.pattern,
        cross_nic: graph.cross_nic,
        channels: graph.channels,
        bandwidths: graph.bandwidths,
        types: strings.text(graph.types).to_owned(),
        devices: graph
            .devices
            .iter()
            .map(|it| strings.text(*it).to_owned())
            .collect(),
    }
}

/// Follows neighbors where rank 0's line is missing or cut.
fn complete_rings(all: &mut Decisions, next: &BTreeMap<u32, BTreeMap<u32, u32>>, ranks: u32) {
    for (channel, after) in next {
        let ring = all.rings.entry(*channel).or_default();
        if ring.len() < ranks as usize {
            let followed = follow(after, ranks);
            if followed.len() == ranks as usize {
                *ring = followed;
            }
        }
        if ring.is_empty() {
            all.rings.remove(channel);
        }
    }
    let cut = all
        .rings
        .iter()
        .filter(|(_, ring)| ring.len() < ranks as usize);
    all.cut_rings = cut.map(|(channel, _)| *channel).collect();
}

/// The known part of the ring, from rank 0.
fn follow(after: &BTreeMap<u32, u32>, ranks: u32) -> Vec<u32> {
    let mut ring = vec![0];
    let mut at = 0;
    while let Some(next) = after.get(&at).copied().filter(|next| *next != 0) {
        if ring.len() >= ranks as usize {
            return Vec::new();
        }
        ring.push(next);
        at = next;
    }
    ring
}

fn hosts<'p>(
    processes: impl Iterator<Item = (&'p (Text, u32), &'p Process)>,
    strings: &Strings,
) -> BTreeMap<String, HostFacts> {
    let text = |it: &Text| strings.text(*it).to_owned();
    let mut hosts: BTreeMap<String, HostFacts> = BTreeMap::new();
    for ((host, _), process) in processes {
        let facts = hosts.entry(text(host)).or_default();
        facts.processes += 1;
        let mut add = |name: &'static str, value: Option<String>| {
            if let Some(value) = value {
                facts.values.entry(name).or_default().insert(value);
            }
        };
        add("version", process.version.as_ref().map(text));
        add(
            "driver",
            process
                .driver
                .map(|it| format!("{}.{}", it / 1000, it % 1000 / 10)),
        );
        add("network", process.network.as_ref().map(text));
        let interface = process.bootstrap.as_ref().map(text);
        let interface = interface.map(|it| {
            let name = it.split(':').next().unwrap_or("");
            name.split(']').next_back().unwrap_or(name).to_owned()
        });
        add("interface", interface);
        for (network, ports) in &process.listed_ports {
            add(
                "ports",
                Some(format!(
                    "{}: {}",
                    text(network),
                    ports_of(strings.text(*ports))
                )),
            );
        }
        for (name, value) in &process.settings {
            facts
                .settings
                .entry(text(name))
                .or_default()
                .insert(text(value));
        }
        for (device, (enabled, why)) in &process.gdr {
            facts.gdr.insert(text(device), (*enabled, text(why)));
        }
        for (cluster, clique) in &process.fabrics {
            facts.fabrics.insert((text(cluster), text(clique)));
        }
        for ((place, code), count) in &process.failed {
            *facts.failed.entry((text(place), *code)).or_default() += count;
        }
    }
    hosts
}

/// Ports without addresses, which differ from host to host.
fn ports_of(ports: &str) -> String {
    let names = ports.split_whitespace().map(|port| {
        let mut parts = port.splitn(3, ':');
        let name = parts.next().unwrap_or("");
        match parts.next() {
            Some(second) if !second.contains('.') => format!("{name}:{second}"),
            _ => name.to_owned(),
        }
    });
    names.collect::<Vec<_>>().join(" ")
}
