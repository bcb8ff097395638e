//! The page of `topo diagnose --log`.

mod compared;
mod decided;
mod trouble;

use std::collections::BTreeMap;

use answers::log::Comparison;
use nccl_log::Log;
use nccl_log::log::RankFacts;
use nccl_log::statement::Stage;

use crate::render::table::Columns;
use crate::render::{Look, count};

/// Most rows of a part of the page; JSON has all.
const SHOWN: usize = 12;

/// Most names in a list.
const MOST_NAMES: usize = 6;

pub(super) fn page(log: &Log, comparison: Option<&Comparison>, look: Look) -> String {
    let mut text = head(log, look);
    text.push_str(&communicators(log, look));
    let largest = log.communicators.iter().rev().max_by_key(|it| it.ranks);
    let largest = match comparison {
        Some(comparison) => log.communicators.get(comparison.communicator),
        None => largest,
    };
    if let Some(communicator) = largest {
        text.push_str(&decided::graphs(&communicator.decisions.graphs, look));
        text.push_str(&decided::channels(communicator, look));
        text.push_str(&decided::connections(communicator, look));
        text.push_str(&decided::choices(communicator, look));
        text.push_str(&decided::times(communicator, look));
    }
    text.push_str(&trouble::gdr(&log.hosts, look));
    if let Some(comparison) = comparison {
        text.push_str(&compared::compared(comparison, look));
    }
    text.push_str(&trouble::odd(log, look));
    text.push_str(&trouble::warnings(log, look));
    text.push_str(&trouble::failures(log, look));
    text.push_str(&trouble::unknown(log, look));
    text
}

/// The first few of many.
fn few(names: &[String]) -> String {
    let more = names.len().saturating_sub(MOST_NAMES);
    let shown = names[..names.len() - more].join(", ");
    match more {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Variables with their values on all hosts.
fn settings(log: &Log) -> Vec<String> {
    let mut settings: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, values) in log.hosts.values().flat_map(|it| &it.settings) {
        let all = settings.entry(name).or_default();
        for value in values {
            if !all.contains(&value.as_str()) {
                all.push(value);
            }
        }
    }
    settings
        .iter()
        .map(|(name, values)| format!("{name}={}", values.join(" or ")))
        .collect()
}

fn head(log: &Log, look: Look) -> String {
    let counts = &log.counts;
    let versions: Vec<String> = log.versions.keys().cloned().collect();
    let version = match versions.is_empty() {
        true => "of an unknown version".to_owned(),
        false => few(&versions),
    };
    let hosts: Vec<String> = log
        .hosts
        .keys()
        .filter(|it| !it.is_empty())
        .cloned()
        .collect();
    let mut text = look.title(&few(&log.files), &format!("NCCL {version}"));
    if !hosts.is_empty() {
        let what = count(hosts.len(), "host");
        text.push_str(&look.field("hosts", &format!("{what}: {}", few(&hosts))));
    }
    let mut models: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, model) in log.gpus.values() {
        *models.entry(model).or_default() += 1;
    }
    let models: Vec<String> = models
        .iter()
        .map(|(model, n)| format!("{n} × {model}"))
        .collect();
    if !models.is_empty() {
        text.push_str(&look.field("GPUs", &few(&models)));
    }
    for (name, key) in [
        ("network", "network"),
        ("ports", "ports"),
        ("meet via", "interface"),
    ] {
        let mut values: Vec<String> = Vec::new();
        for value in log
            .hosts
            .values()
            .filter_map(|it| it.values.get(key))
            .flatten()
        {
            if !values.contains(value) {
                values.push(value.clone());
            }
        }
        if !values.is_empty() {
            text.push_str(&look.field(name, &few(&values)));
        }
    }
    let settings = settings(log);
    if !settings.is_empty() {
        text.push_str(&look.field("settings", &settings.join(", ")));
    }
    let mut lines = format!(
        "{}: {} read, {} of no interest, {} unknown, {}, {} not NCCL's",
        count(counts.lines as usize, "line"),
        counts.recognized,
        counts.ignored,
        counts.unknown,
        count(counts.warnings as usize, "warning"),
        counts.others
    );
    let channels = counts.channels + counts.damaged + counts.broken;
    lines.push_str(&format!(
        "; {} of {channels} rings, trees and channels",
        counts.channels
    ));
    if counts.damaged > 0 {
        lines.push_str(&format!(", {} cut by other output", counts.damaged));
    }
    text.push_str(&look.field("lines", &lines));
    if log.is_full {
        let full = "the log says more than is kept: what came last is missing below";
        text.push_str(&look.field("note", full));
    }
    text
}

/// How far the ranks of a communicator came.
fn stages(members: &[RankFacts], ranks: u32) -> String {
    let ready = |it: &&RankFacts| matches!(it.stage, Some(Stage::Complete | Stage::Destroyed));
    let ready = members.iter().filter(ready).count();
    let aborted = members
        .iter()
        .filter(|it| it.stage == Some(Stage::Aborted))
        .count();
    let mut text = format!("{ready} of {ranks}");
    if aborted > 0 {
        text.push_str(&format!(", {aborted} aborted"));
    }
    text
}

fn communicators(log: &Log, look: Look) -> String {
    let headers = [
        "communicator",
        "ranks",
        "nodes",
        "ready",
        "channels",
        "NVLS",
        "time (s)",
    ];
    let mut table = Columns::new(look, &headers).right(&[1, 2, 3, 4, 5, 6]);
    for (number, it) in log.communicators.iter().enumerate().take(SHOWN) {
        let counts = it.decisions.counts;
        let times = it.members.iter().filter_map(|it| it.seconds);
        let longest = times.max_by(f32::total_cmp);
        let rings = it.decisions.rings.len();
        let channels = counts.map(|it| it.collectives.to_string());
        let channels = channels.or((rings > 0).then(|| rings.to_string()));
        let dash = || "–".to_owned();
        table.row(vec![
            it.id.clone().unwrap_or_else(|| format!("#{number}")),
            it.ranks.to_string(),
            it.nodes.to_string(),
            stages(&it.members, it.ranks),
            channels.unwrap_or_else(dash),
            counts.map_or_else(dash, |it| it.nvls.to_string()),
            longest.map_or_else(dash, |it| it.to_string()),
        ]);
    }
    if log.communicators.is_empty() {
        return String::new();
    }
    let more = log.communicators.len().saturating_sub(SHOWN);
    let remark = match more {
        0 => String::new(),
        more => format!("{more} more (--json)"),
    };
    look.section("Communicators", &remark, &table.finish())
}
