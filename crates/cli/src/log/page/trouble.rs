//! Trouble: GPUDirect RDMA that is off, oddities, warnings, errors, unknown lines.

use std::collections::BTreeMap;

use nccl_log::Log;
use nccl_log::log::{HostFacts, Oddity};
use nccl_log::warning::result_name;

use super::{SHOWN, few};
use crate::render::{Look, wrap};

pub(super) fn gdr(hosts: &BTreeMap<String, HostFacts>, look: Look) -> String {
    let mut off: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for (host, facts) in hosts {
        for (device, (enabled, why)) in &facts.gdr {
            if !enabled {
                off.entry((device, why)).or_default().push(host.clone());
            }
        }
    }
    let mut body = String::new();
    for ((device, why), hosts) in off.iter().take(SHOWN) {
        let why = match *why {
            "" => "its driver or plug-in cannot reach GPU memory: load nvidia-peermem, or use \
                   a kernel and driver with DMA-BUF"
                .to_owned(),
            why => match why.strip_prefix("distance ") {
                Some(distance) => format!(
                    "too far from the GPU: distance {distance} (NCCL_NET_GDR_LEVEL); topo show --path shows the path"
                ),
                None => why.to_owned(),
            },
        };
        let text = format!("off for {device} on {}: {why}", few(hosts));
        body.push_str(&wrap(&text, "  ", "    ", look.width));
    }
    match body.is_empty() {
        true => body,
        false => look.section("GPUDirect RDMA", "", &body),
    }
}

pub(super) fn odd(log: &Log, look: Look) -> String {
    let several = log.communicators.len() > 1;
    let ranks = log
        .communicators
        .iter()
        .enumerate()
        .flat_map(|(number, communicator)| {
            let name = match (&communicator.id, several) {
                (_, false) => String::new(),
                (Some(id), true) => format!(" ({id})"),
                (None, true) => format!(" (#{number})"),
            };
            communicator
                .odd_ranks
                .iter()
                .map(move |it| (name.clone(), it))
        });
    let hosts = log.odd_hosts.iter().map(|it| (String::new(), it));
    let all: Vec<(String, &Oddity)> = hosts.chain(ranks).collect();
    let mut body = String::new();
    for (of, it) in all.iter().take(2 * SHOWN) {
        for (value, who) in it.others.iter().take(SHOWN) {
            let (what, usual, number) = (&it.what, &it.usual, it.usual_count);
            let text = format!(
                "{what}{of}: {value} on {}; {usual} on {number} others",
                few(who)
            );
            body.push_str(&wrap(&text, "  ", "    ", look.width));
        }
    }
    match body.is_empty() {
        true => body,
        false => look.section("Odd", "differs from most", &body),
    }
}

pub(super) fn warnings(log: &Log, look: Look) -> String {
    let mut body = String::new();
    for warning in log.warnings.iter().take(SHOWN) {
        let sources = warning.sources.iter().map(|(host, gpu)| match gpu {
            Some(gpu) => format!("{host} GPU {gpu}"),
            None => host.clone(),
        });
        let sources: Vec<String> = sources.filter(|it| !it.is_empty()).collect();
        let (file, line) = &warning.first;
        let text = format!(
            "{} × {} ({file}, line {line}: {})",
            warning.count,
            warning.text,
            few(&sources)
        );
        body.push_str(&wrap(&text, "  ", "    ", look.width));
        if let Some(it) = warning.meaning {
            let text = format!("means: {}. Do: {}", it.means, it.advice);
            body.push_str(&wrap(&text, "    ", "    ", look.width));
        }
    }
    let more = log.warnings.len().saturating_sub(SHOWN);
    if more > 0 {
        body.push_str(&format!("  {more} more kinds (--json)\n"));
    }
    match body.is_empty() {
        true => body,
        false => look.section("Warnings", "the most frequent first", &body),
    }
}

pub(super) fn failures(log: &Log, look: Look) -> String {
    let mut codes: BTreeMap<u32, (u64, Vec<String>)> = BTreeMap::new();
    for (host, facts) in &log.hosts {
        for ((_, code), number) in &facts.failed {
            let (all, hosts) = codes.entry(*code).or_default();
            *all += number;
            if !hosts.contains(host) {
                hosts.push(host.clone());
            }
        }
    }
    let mut body = String::new();
    for (code, (number, hosts)) in codes.iter().take(SHOWN) {
        let text = format!(
            "{number} × {code} ({}) on {}",
            result_name(*code),
            few(hosts)
        );
        body.push_str(&wrap(&text, "  ", "    ", look.width));
    }
    match body.is_empty() {
        true => body,
        false => look.section("Errors that functions of NCCL returned", "", &body),
    }
}

pub(super) fn unknown(log: &Log, look: Look) -> String {
    let mut body = String::new();
    for (text, number) in log.unknown.iter().take(SHOWN / 2) {
        body.push_str(&wrap(
            &format!("{number} × {text}"),
            "  ",
            "    ",
            look.width,
        ));
    }
    match body.is_empty() {
        true => body,
        false => look.section("Unknown lines", "numbers as #", &body),
    }
}
