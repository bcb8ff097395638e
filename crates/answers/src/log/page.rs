//! The content of NCCL's log as a page.

use std::collections::{BTreeMap, BTreeSet};

use pages::numbers::{count, or_dash};
use pages::{Page, Section, Table, row};
use records::nccl_log::Communicator;
use records::nccl_log::collect::Counts;
use records::nccl_log::decisions::pattern;
use records::nccl_log::log::{Graph, HostFacts, Oddity, RankFacts};
use records::nccl_log::rebuilt::{rings, trees};
use records::nccl_log::statement::Stage;
use records::nccl_log::warning::result_name;

use super::{Comparison, LogReport};

/// Most rows of a part of the page; JSON has all.
const SHOWN: usize = 12;

/// Most names in a list.
const MOST_NAMES: usize = 6;

/// Most variables in a line.
const MOST_SETTINGS: usize = 32;

/// Most characters of a value that is odd.
const MOST_OF_VALUE: usize = 120;

/// The first few of many.
pub(crate) fn few(names: &[String]) -> String {
    first(names, ", ")
}

fn first(names: &[impl AsRef<str>], separator: &str) -> String {
    let more = names.len().saturating_sub(MOST_NAMES);
    let shown = names[..names.len() - more].iter().map(AsRef::as_ref);
    let shown = shown.collect::<Vec<&str>>().join(separator);
    match more {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Adds a section with the items that are made, unless there are none.
fn items(page: &mut Page, title: &str, remark: &str, texts: impl Iterator<Item = String>) {
    let mut texts = texts.peekable();
    if texts.peek().is_some() {
        let section = page.section(title, remark);
        texts.for_each(|text| {
            section.item(text);
        });
    }
}

impl LogReport {
    /// The page: what the log says of all communicators, the decisions of the largest or of that
    /// which was compared, and what is odd.
    pub fn page(&self) -> Page {
        let mut page = self.head();
        self.communicators(&mut page);
        let all = &self.log.communicators;
        let shown = match &self.comparison {
            Some(comparison) => all.get(comparison.communicator),
            None => all.iter().rev().max_by_key(|it| it.ranks),
        };
        if let Some(communicator) = shown {
            graphs(&mut page, &communicator.decisions.graphs);
            channels(&mut page, communicator);
            connections(&mut page, communicator);
            choices(&mut page, communicator);
            times(&mut page, communicator);
        }
        gdr(&mut page, &self.log.hosts);
        if let Some(comparison) = &self.comparison {
            comparison.section(&mut page);
        }
        odd(&mut page, &self.log.odd());
        self.warnings(&mut page);
        self.failures(&mut page);
        let unknown = self.log.unknown.iter().take(SHOWN / 2);
        let unknown = unknown.map(|(text, number)| format!("{number} × {text}"));
        items(&mut page, "Unknown lines", "numbers as #", unknown);
        page
    }

    fn head(&self) -> Page {
        let log = &self.log;
        let versions: Vec<String> = log.versions.keys().cloned().collect();
        let version = match versions.is_empty() {
            true => "of an unknown version".to_owned(),
            false => few(&versions),
        };
        let mut page = Page::new(few(&log.files));
        page.remark = format!("NCCL {version}");
        let hosts = log.hosts.keys().filter(|it| !it.is_empty());
        let hosts: Vec<String> = hosts.cloned().collect();
        if !hosts.is_empty() {
            let what = count(hosts.len(), "host");
            page.field("hosts", format!("{what}: {}", few(&hosts)));
        }
        let mut models: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, model) in log.gpus.values() {
            *models.entry(model).or_default() += 1;
        }
        let models = models.iter().map(|(model, n)| format!("{n} × {model}"));
        let models: Vec<String> = models.collect();
        if !models.is_empty() {
            page.field("GPUs", few(&models));
        }
        for (name, key) in [
            ("network", "network"),
            ("ports", "ports"),
            ("meet via", "interface"),
        ] {
            let mut values: Vec<String> = Vec::new();
            for value in log.hosts.values().filter_map(|it| it.values.get(key)) {
                let new = value.iter().filter(|it| !values.contains(it));
                values.extend(new.cloned().collect::<Vec<_>>());
            }
            if !values.is_empty() {
                page.field(name, few(&values));
            }
        }
        if let Some(settings) = settings(&log.settings()) {
            page.field("settings", settings);
        }
        page.field("lines", lines(&log.counts));
        if log.is_full {
            let full = "the log says more than is kept: what came last is missing below";
            page.field("note", full);
        }
        page
    }

    fn communicators(&self, page: &mut Page) {
        let all = &self.log.communicators;
        if all.is_empty() {
            return;
        }
        let mut table = Table::new([
            "communicator",
            ">ranks",
            ">nodes",
            ">ready",
            ">channels",
            ">NVLS",
            ">time (s)",
        ]);
        for (number, it) in all.iter().enumerate().take(SHOWN) {
            let counts = it.decisions.counts;
            let times = it.members.iter().filter_map(|it| it.seconds);
            let rings = it.decisions.rings.len();
            let channels = counts.map(|it| it.collectives as usize);
            table.row(row![
                it.id.clone().unwrap_or_else(|| format!("#{number}")),
                it.ranks,
                it.nodes,
                stages(&it.members, it.ranks),
                or_dash(channels.or((rings > 0).then_some(rings))),
                or_dash(counts.map(|it| it.nvls)),
                or_dash(times.max_by(f32::total_cmp)),
            ]);
        }
        let section = page.section("Communicators", "");
        let more = all.len().saturating_sub(SHOWN);
        if more > 0 {
            section.remark = format!("{more} more");
            section.hint("(--json)");
        }
        section.table(table);
    }

    fn warnings(&self, page: &mut Page) {
        let all = &self.log.warnings;
        if all.is_empty() {
            return;
        }
        let section = page.section("Warnings", "the most frequent first");
        for warning in all.iter().take(SHOWN) {
            let sources = warning.sources.iter().map(|(host, gpu)| match gpu {
                Some(gpu) => format!("{host} GPU {gpu}"),
                None => host.clone(),
            });
            let sources: Vec<String> = sources.filter(|it| !it.is_empty()).collect();
            let (file, line) = (&warning.file, warning.line);
            section.item(format!(
                "{} × {} ({file}, line {line}: {})",
                warning.count,
                warning.text,
                few(&sources)
            ));
            if let Some(it) = warning.meaning {
                section.below(format!("means: {}. Do: {}", it.means, it.advice));
            }
        }
        more(section, all.len().saturating_sub(SHOWN), "more kinds");
    }

    fn failures(&self, page: &mut Page) {
        let mut codes: BTreeMap<u32, (u64, Vec<String>)> = BTreeMap::new();
        for (host, facts) in &self.log.hosts {
            for ((_, code), number) in &facts.failed {
                let (all, hosts) = codes.entry(*code).or_default();
                *all += number;
                if !hosts.contains(host) {
                    hosts.push(host.clone());
                }
            }
        }
        let texts = codes.iter().take(SHOWN).map(|(code, (number, hosts))| {
            let (name, hosts) = (result_name(*code), few(hosts));
            format!("{number} × {code} ({name}) on {hosts}")
        });
        items(page, "Errors that functions of NCCL returned", "", texts);
    }
}

/// Numbers of lines, by what became of them.
pub(crate) fn lines(counts: &Counts) -> String {
    let damaged = match counts.damaged {
        0 => String::new(),
        damaged => format!(", {damaged} cut by other output"),
    };
    let channels = match counts.channels + counts.damaged + counts.broken {
        0 => String::new(),
        all => format!(
            "; {} of {all} rings, trees and channels{damaged}",
            counts.channels
        ),
    };
    format!(
        "{}: {} read, {} of no interest, {} unknown, {}, {} not NCCL's{channels}",
        count(counts.lines as usize, "line"),
        counts.recognized,
        counts.ignored,
        counts.unknown,
        count(counts.warnings as usize, "warning"),
        counts.others
    )
}

/// Adds what is odd, unless nothing is.
pub(crate) fn odd(page: &mut Page, all: &[Oddity]) {
    let texts: Vec<String> = all.iter().flat_map(sentences).collect();
    if texts.is_empty() {
        return;
    }
    let section = page.section("Odd", "differs from most");
    for text in texts.iter().take(2 * SHOWN) {
        section.item(text);
    }
    more(section, texts.len().saturating_sub(2 * SHOWN), "more");
}

/// A sentence for each value that differs.
fn sentences(it: &Oddity) -> impl Iterator<Item = String> {
    let short = |text: &str| match text.char_indices().nth(MOST_OF_VALUE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    };
    it.others.iter().map(move |(value, who)| {
        let (value, usual, who) = (short(value), short(&it.usual), few(who));
        let others = count(it.usual_count, "other");
        format!("{}: {value} on {who}; {usual} on {others}", it.what)
    })
}

/// Variables with their values.
pub(crate) fn settings(all: &BTreeMap<String, BTreeSet<String>>) -> Option<String> {
    let text = |(name, values): (&String, &BTreeSet<String>)| {
        let values: Vec<&String> = values.iter().collect();
        format!("{name}={}", first(&values, " or "))
    };
    let shown: Vec<String> = all.iter().take(MOST_SETTINGS).map(text).collect();
    match (shown.is_empty(), all.len() - shown.len()) {
        (true, _) => None,
        (false, 0) => Some(shown.join(", ")),
        (false, more) => Some(format!("{} and {more} more", shown.join(", "))),
    }
}

/// Says how many more there are, if any.
fn more(section: &mut Section, more: usize, what: &str) {
    if more > 0 {
        section.say(format!("{more} {what}")).hint("(--json)");
    }
}

/// How far the ranks of a communicator came.
fn stages(members: &[RankFacts], ranks: u32) -> String {
    let of = |stages: &[Stage]| {
        let at = members.iter().filter_map(|it| it.stage);
        at.filter(|it| stages.contains(it)).count()
    };
    let ready = of(&[Stage::Complete, Stage::Destroyed]);
    match of(&[Stage::Aborted]) {
        0 => format!("{ready} of {ranks}"),
        aborted => format!("{ready} of {ranks}, {aborted} aborted"),
    }
}

fn graphs(page: &mut Page, graphs: &[Graph]) {
    if graphs.is_empty() {
        return;
    }
    let mut table = Table::new([
        "search",
        ">channels",
        ">GB/s inside",
        ">GB/s between",
        "paths",
        "first channel",
    ]);
    for graph in graphs {
        let [inside, between] = graph.bandwidths;
        let first = graph.devices.first().map_or("", String::as_str);
        let first = first.split_once(':').map_or(first, |(_, rest)| rest);
        table.row(row![
            pattern(graph.pattern),
            graph.channels,
            inside,
            between,
            graph.types,
            first.trim(),
        ]);
    }
    page.section("Search", "inside a node").table(table);
}

fn channels(page: &mut Page, communicator: &Communicator) {
    let parts = [
        (
            "ring",
            rings(
                &communicator.decisions.rings,
                &communicator.decisions.cut_rings,
            ),
        ),
        ("tree", trees(&communicator.decisions.trees)),
    ];
    if parts.iter().all(|(_, equal)| equal.is_empty()) {
        return;
    }
    let section = page.section("Rings and trees", "by channel, in ranks");
    for (name, equal) in parts {
        for (channels, text) in equal.iter().take(SHOWN) {
            section.item(format!("{name} {channels}: {text}"));
        }
        let what = format!("more kinds of {name}s");
        more(section, equal.len().saturating_sub(SHOWN), &what);
    }
}

fn connections(page: &mut Page, communicator: &Communicator) {
    let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
    let mut ports: BTreeMap<(&str, &str, i32), [u64; 2]> = BTreeMap::new();
    for member in &communicator.members {
        for (kind, number) in &member.transports {
            *kinds.entry(kind).or_default() += number;
        }
        for ((network, device), [with, without]) in &member.ports {
            let port = ports.entry((&member.host, network, *device)).or_default();
            port[0] += with;
            port[1] += without;
        }
    }
    if kinds.is_empty() {
        return;
    }
    let kinds = kinds.iter().map(|(kind, n)| format!("{kind} {n}"));
    let section = page.section("Connections", "as the ranks log them");
    section.say(kinds.collect::<Vec<_>>().join(", "));
    if ports.is_empty() {
        return;
    }
    let mut table = Table::new([
        "host",
        "network",
        ">port",
        ">with GPUDirect RDMA",
        ">without",
    ]);
    for ((host, network, device), [with, without]) in ports.iter().take(2 * SHOWN) {
        table.row(row![host, network, device, with, without]);
    }
    section.table(table);
    more(section, ports.len().saturating_sub(2 * SHOWN), "more ports");
}

fn choices(page: &mut Page, communicator: &Communicator) {
    let choices = &communicator.decisions.choices;
    if choices.is_empty() {
        return;
    }
    let mut table = Table::new(["collective", ">from bytes", "algorithm", "protocol"]);
    let mut last = None;
    for ((collective, bytes), (algorithm, protocol)) in choices {
        let now = Some((*collective, *algorithm, *protocol));
        if now != last {
            table.row(row![collective, bytes, algorithm, protocol]);
        }
        last = now;
    }
    page.section("Choices", "").table(table);
}

fn times(page: &mut Page, communicator: &Communicator) {
    let known = communicator.members.iter();
    let known = known.filter_map(|it| Some((it.seconds?, it)));
    let Some((seconds, member)) = known.max_by(|a, b| a.0.total_cmp(&b.0)) else {
        return;
    };
    let phases = member.phases.iter().map(|(name, s)| format!("{name} {s}"));
    let phases = phases.collect::<Vec<_>>().join(", ");
    let rank = member.rank.map(|rank| format!(" of rank {rank}"));
    let rank = rank.unwrap_or_default();
    page.section("Initialisation", "")
        .say(format!("{seconds} s, the longest{rank}: {phases}"));
}

fn gdr(page: &mut Page, hosts: &BTreeMap<String, HostFacts>) {
    let mut off: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for (host, facts) in hosts {
        for (device, (_, why)) in facts.gdr.iter().filter(|(_, (enabled, _))| !enabled) {
            off.entry((device, why)).or_default().push(host.clone());
        }
    }
    if off.is_empty() {
        return;
    }
    let section = page.section("GPUDirect RDMA", "");
    for ((device, why), hosts) in off.iter().take(SHOWN) {
        let distance = why.strip_prefix("distance ");
        let why = match (*why, distance) {
            ("", _) => {
                "its driver or plug-in cannot reach GPU memory: load nvidia-peermem, or use a kernel and driver with \
                 DMA-BUF"
                    .to_owned()
            }
            (_, Some(distance)) => {
                format!("too far from the GPU: distance {distance} (NCCL_NET_GDR_LEVEL)")
            }
            (why, None) => why.to_owned(),
        };
        section.item(format!("off for {device} on {}: {why}", few(hosts)));
        if distance.is_some() {
            section.hint("; topo show --path shows the path");
        }
    }
}

impl Comparison {
    fn section(&self, page: &mut Page) {
        let values: u64 = self.fields.iter().map(|it| it.values).sum();
        let different: usize = self.fields.iter().map(|it| it.differences.len()).sum();
        let verdict = match different {
            0 => format!("NCCL decided as planned, {values} of {values} values"),
            _ => format!("{different} of {values} values differ"),
        };
        let hosts = count(self.hosts as usize, "host");
        let section = page.section("Compared with the plan", "");
        section.item(format!("{} on {hosts}: {verdict}", self.machine));
        for note in &self.notes {
            section.item(format!("note: {note}"));
        }
        let mut table = Table::new(["field", ">values", ">differ"]);
        for it in &self.fields {
            table.row(row![it.field, it.values, it.differences.len()]);
        }
        section.table(table);
        if different > 0 {
            let mut table = Table::new(["field", "value", "log", "plan"]);
            for it in &self.fields {
                for (what, log, plan) in it.differences.iter().take(SHOWN / 2) {
                    table.row(row![it.field, what, log, plan]);
                }
            }
            section.lines("\n").table(table);
        }
    }
}
