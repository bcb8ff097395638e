//! Decisions of NCCL: search, rings, trees, connections, choices.

use std::collections::BTreeMap;

use answers::log::{pattern, rings, trees};
use nccl_log::Communicator;
use nccl_log::log::{Graph, RankFacts};

use super::SHOWN;
use crate::render::table::Columns;
use crate::render::{Look, wrap};

pub(super) fn graphs(graphs: &[Graph], look: Look) -> String {
    if graphs.is_empty() {
        return String::new();
    }
    let headers = [
        "search",
        "channels",
        "GB/s inside",
        "GB/s between",
        "paths",
        "first channel",
    ];
    let mut table = Columns::new(look, &headers).right(&[1, 2, 3]);
    for graph in graphs {
        let [inside, between] = graph.bandwidths;
        let first = graph.devices.first().map_or("", String::as_str);
        table.row(vec![
            pattern(graph.pattern).to_owned(),
            graph.channels.to_string(),
            inside.to_string(),
            between.to_string(),
            graph.types.clone(),
            first
                .split_once(':')
                .map_or(first, |(_, rest)| rest)
                .trim()
                .to_owned(),
        ]);
    }
    look.section("Search", "inside a node", &table.finish())
}

pub(super) fn channels(communicator: &Communicator, look: Look) -> String {
    let mut body = String::new();
    let parts = [
        ("ring", rings(&communicator.decisions)),
        ("tree", trees(&communicator.decisions)),
    ];
    for (name, equal) in parts {
        let more = equal.len().saturating_sub(SHOWN);
        for (channels, text) in equal.into_iter().take(SHOWN) {
            let first = format!("  {name} {channels}: ");
            body.push_str(&wrap(&text, &first, "    ", look.width));
        }
        if more > 0 {
            body.push_str(&format!("  {more} more kinds of {name}s (--json)\n"));
        }
    }
    match body.is_empty() {
        true => body,
        false => look.section("Rings and trees", "by channel, in ranks", &body),
    }
}

pub(super) fn connections(communicator: &Communicator, look: Look) -> String {
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
        return String::new();
    }
    let kinds: Vec<String> = kinds
        .iter()
        .map(|(kind, n)| format!("{kind} {n}"))
        .collect();
    let mut body = wrap(&kinds.join(", "), "  ", "  ", look.width);
    if !ports.is_empty() {
        let headers = ["host", "network", "port", "with GPUDirect RDMA", "without"];
        let mut table = Columns::new(look, &headers).right(&[2, 3, 4]);
        for ((host, network, device), [with, without]) in ports.iter().take(2 * SHOWN) {
            table.row(vec![
                (*host).to_owned(),
                (*network).to_owned(),
                device.to_string(),
                with.to_string(),
                without.to_string(),
            ]);
        }
        body.push_str(&table.finish());
        let more = ports.len().saturating_sub(2 * SHOWN);
        if more > 0 {
            body.push_str(&format!("  {more} more ports (--json)\n"));
        }
    }
    look.section("Connections", "as the ranks log them", &body)
}

pub(super) fn choices(communicator: &Communicator, look: Look) -> String {
    let mut table = Columns::new(look, &["collective", "from bytes", "algorithm", "protocol"]);
    let mut last = None;
    for ((collective, bytes), (algorithm, protocol)) in &communicator.decisions.choices {
        let now = Some((*collective, *algorithm, *protocol));
        if now != last {
            table.row(vec![
                collective.to_string(),
                bytes.to_string(),
                algorithm.to_string(),
                protocol.to_string(),
            ]);
        }
        last = now;
    }
    match communicator.decisions.choices.is_empty() {
        true => String::new(),
        false => look.section("Choices", "", &table.right(&[1]).finish()),
    }
}

pub(super) fn times(communicator: &Communicator, look: Look) -> String {
    let slowest = communicator
        .members
        .iter()
        .filter(|it| it.seconds.is_some());
    let slowest = slowest.max_by(|a, b| {
        let seconds = |it: &RankFacts| it.seconds.unwrap_or(0.0);
        seconds(a).total_cmp(&seconds(b))
    });
    let Some(member) = slowest else {
        return String::new();
    };
    let phases: Vec<String> = member
        .phases
        .iter()
        .map(|(name, s)| format!("{name} {s}"))
        .collect();
    let rank = member
        .rank
        .map_or_else(String::new, |rank| format!(" of rank {rank}"));
    let seconds = member.seconds.unwrap_or(0.0);
    let text = format!("{seconds} s, the longest{rank}: {}", phases.join(", "));
    look.section("Initialisation", "", &wrap(&text, "  ", "  ", look.width))
}
