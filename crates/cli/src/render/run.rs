//! The page of `topo run`: the table that nccl-tests' users know, and what it comes to.

use anyhow::Result;
use executor::Choice;
use net::Reached;
use program::Transfer;
use serde_json::json;

use super::table::Columns;
use super::{Look, count};
use crate::run::{Joined, Latency, Launches, Report, Row, Timing};
use crate::sizes;

/// The page.
pub fn page(report: &Report, look: Look) -> String {
    let spec = &report.spec;
    let mut text = look.title(
        &format!("{} of {}", sizes::kebab(spec.collective), ranks(report)),
        "",
    );
    text.push_str(&look.field("ranks", &places(report)));
    if let Some(joined) = &report.joined {
        for (name, line) in joined_lines(joined) {
            text.push_str(&look.field(name, &line));
        }
    }
    if let Some(planned) = &report.planned {
        text.push_str(&look.field(
            "plan",
            &format!(
                "{}: its rings and trees; its own choice is for GPUs and stands beside",
                planned.name
            ),
        ));
    }
    text.push('\n');
    text.push_str(&table(report, look));
    text.push('\n');
    text.push_str(&summary(report, look));
    text
}

fn ranks(report: &Report) -> String {
    let spec = &report.spec;
    let kind = if spec.processes {
        "processes"
    } else {
        "threads"
    };
    let reduces = if spec.collective.reduces() {
        format!(", {}", spec.op)
    } else {
        String::new()
    };
    format!("{} {kind}, {}{reduces}", spec.ranks, spec.element)
}

/// How ranks reach each other, and what the plan says of that.
fn places(report: &Report) -> String {
    let spec = &report.spec;
    let own = if let Some(joined) = &report.joined {
        &reached(joined)
    } else if spec.processes {
        "SHM: one process each, which map each other's buffers"
    } else {
        "P2P: threads of one process, which access each other's buffers"
    };
    let Some(planned) = &report.planned else {
        return own.to_owned();
    };
    let transports: Vec<String> = planned
        .transports
        .iter()
        .map(|(name, count)| format!("{name} for {count}"))
        .collect();
    let transports = transports.join(", ");
    format!(
        "{own} (along the first ring the plan has {transports} of {})",
        spec.ranks
    )
}

/// How rank 0 reaches the others.
fn reached(joined: &Joined) -> String {
    let reached = &joined.reached;
    let interfaces: Vec<&str> = reached
        .interfaces
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    let shared = (reached.shared > 0).then(|| format!("SHM for {}", reached.shared));
    let remote = reached.remote as usize + reached.fallen_back.len();
    let by = match &reached.plugin {
        Some(plugin) => {
            let nics: Vec<&str> = plugin.devices.iter().map(|it| it.name.as_str()).collect();
            format!("{} by {}", plugin.name, nics.join(", "))
        }
        None => format!("TCP by {}", interfaces.join(", ")),
    };
    let forwarded: Vec<String> = reached
        .forwarded
        .iter()
        .map(|(rank, count)| format!("{count} by rank {rank}"))
        .collect();
    let forwarded = match forwarded.is_empty() {
        true => String::new(),
        false => format!(" ({}: PXN)", forwarded.join(", ")),
    };
    let remote = (remote > 0).then(|| format!("NET for {remote}{forwarded}, {by}"));
    let ways: Vec<String> = [shared, remote].into_iter().flatten().collect();
    let ways = if ways.is_empty() {
        "alone".to_owned()
    } else {
        ways.join(", ")
    };
    format!("started by {}; from rank 0 {ways}", joined.by)
}

/// What carries data between hosts, as a value.
fn net(reached: &Reached) -> serde_json::Value {
    let interfaces = reached.interfaces.iter();
    let interfaces: Vec<_> = interfaces.map(|it| json!({ "name": it.0 })).collect();
    match &reached.plugin {
        Some(plugin) => json!({
            "by": "net plug-in",
            "name": plugin.name,
            "abi": plugin.version,
            "library": plugin.path,
            "devices": plugin.devices.iter().map(|it| json!({
                "name": it.name,
                "pci_path": it.pci_path,
                "speed_mbps": it.speed_mbps,
                "rail": it.rail,
                "plane": it.plane,
            })).collect::<Vec<_>>(),
        }),
        None => json!({
            "by": "TCP",
            "devices": interfaces,
            "fallen_back": reached.plugin_fallen_back,
        }),
    }
}

fn joined_lines(joined: &Joined) -> Vec<(&'static str, String)> {
    let reached = &joined.reached;
    let mut lines = vec![("hosts", reached.hosts.join(", "))];
    if let Some(plugin) = &reached.plugin {
        let line = format!("{}, ABI v{}, {}", plugin.name, plugin.version, plugin.path);
        lines.push(("plug-in", line));
    }
    if let Some(why) = &reached.plugin_fallen_back {
        lines.push(("fallback", format!("TCP instead of a net plug-in: {why}")));
    }
    // One is enough to see why.
    if let Some((rank, why)) = reached.fallen_back.first() {
        let line = format!(
            "NET instead of SHM for {}, as for rank {rank}: {why}",
            count(reached.fallen_back.len(), "rank")
        );
        lines.push(("fallback", line));
    }
    for (ranks, what) in &joined.lost {
        let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
        lines.push(("lost", format!("rank {}: {what}", ranks.join(", "))));
    }
    lines
}

/// Both placements side by side, or one below the other where they do not fit.
fn table(report: &Report, look: Look) -> String {
    let in_place = report.spec.in_place;
    let whole = columns(report, look, true, in_place);
    if !in_place || whole.fits() {
        return whole.finish();
    }
    format!(
        "{}\n{}",
        columns(report, look, true, false).finish(),
        columns(report, look, false, true).finish()
    )
}

fn columns(report: &Report, look: Look, separate: bool, in_place: bool) -> Columns {
    let spec = &report.spec;
    let mut headers = vec!["size", "count"];
    if spec.collective.has_root() {
        headers.push("root");
    }
    headers.extend(["algorithm", "proto", "ch"]);
    let first_number = headers.len();
    if separate {
        headers.extend(["µs", "p50", "p99", "max", "algbw", "busbw", "wrong"]);
    }
    if in_place {
        headers.extend(["in place", "p50", "p99", "max", "algbw", "busbw", "wrong"]);
    }
    if separate {
        headers.push("pred.");
    }
    let numbers = headers.len();
    let planned = report.planned.as_ref().filter(|_| separate);
    if planned.is_some() {
        headers.push("plan");
    }
    let right: Vec<usize> = [0, 1]
        .into_iter()
        .chain(first_number - 1..numbers)
        .collect();
    let mut table = Columns::new(look, &headers).right(&right);
    for (at, row) in report.rows.iter().enumerate() {
        let mut cells = vec![sizes::short(row.bytes), row.count.to_string()];
        if spec.collective.has_root() {
            cells.push(spec.root.to_string());
        }
        let way = if separate {
            Some(row.way)
        } else {
            row.way_in_place
        };
        cells.extend(way.map_or_else(|| ["–"; 3].map(str::to_owned), in_words));
        if separate {
            cells.extend(figures(report, row, Some(row.separate)));
        }
        if in_place {
            cells.extend(figures(report, row, row.in_place));
        }
        if separate {
            cells.push(
                row.predicted_us
                    .map_or_else(|| "–".to_owned(), |time| gbps(bus(report, row.bytes, time))),
            );
        }
        if let Some(planned) = planned {
            let choice = planned.choices.get(at).cloned().flatten();
            cells.push(choice.unwrap_or_else(|| "–".to_owned()));
        }
        table.row(cells);
    }
    table
}

/// Algorithm, protocol and channels.
fn in_words(way: Choice) -> [String; 3] {
    [
        way.schedule.name().to_owned(),
        protocol(way),
        way.channels.to_string(),
    ]
}

fn protocol(way: Choice) -> String {
    match way.transfer {
        Transfer::Direct => "direct".to_owned(),
        Transfer::Fifo => way.protocol.name().to_owned(),
    }
}

fn figures(report: &Report, row: &Row, timing: Option<Timing>) -> [String; 7] {
    let none = || "–".to_owned();
    let Some(timing) = timing else {
        return std::array::from_fn(|_| none());
    };
    let latency = |of: fn(&Latency) -> f64| {
        let time = timing.latency.as_ref().map(of);
        time.map_or_else(none, micros)
    };
    [
        micros(timing.time_us),
        latency(|it| it.p50_us),
        latency(|it| it.p99_us),
        latency(|it| it.max_us),
        gbps(algorithm(row.bytes, timing.time_us)),
        gbps(bus(report, row.bytes, timing.time_us)),
        timing.wrong.map_or_else(none, |wrong| wrong.to_string()),
    ]
}

/// Bytes of the message per time, GB/s.
fn algorithm(bytes: u64, time_us: f64) -> f64 {
    bytes as f64 / time_us / 1000.0
}

/// What the busiest link would carry, GB/s, as nccl-tests reports it.
fn bus(report: &Report, bytes: u64, time_us: f64) -> f64 {
    algorithm(bytes, time_us) * report.spec.collective.bus_factor(report.spec.ranks)
}

fn micros(time_us: f64) -> String {
    match time_us {
        1000.0.. => format!("{time_us:.0}"),
        100.0.. => format!("{time_us:.1}"),
        _ => format!("{time_us:.2}"),
    }
}

fn gbps(value: f64) -> String {
    format!("{value:.2}")
}

fn average(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn summary(report: &Report, look: Look) -> String {
    let rows = &report.rows;
    let mut text = String::new();
    let separate = average(
        rows.iter()
            .map(|row| bus(report, row.bytes, row.separate.time_us)),
    );
    let in_place = average(rows.iter().filter_map(|row| {
        let timing = row.in_place?;
        Some(bus(report, row.bytes, timing.time_us))
    }));
    let predicted = average(rows.iter().filter_map(|row| {
        let time = row.predicted_us?;
        Some(bus(report, row.bytes, time))
    }));
    let mut bandwidth = separate.map_or_else(String::new, |it| format!("{it:.2} GB/s"));
    if let Some(in_place) = in_place {
        bandwidth.push_str(&format!(", in place {in_place:.2} GB/s"));
    }
    match predicted {
        Some(predicted) => bandwidth.push_str(&format!(", predicted {predicted:.2} GB/s")),
        None => bandwidth
            .push_str("; not predicted, for the cost profile knows no figures (topo calibrate)"),
    }
    text.push_str(&look.field("average", &format!("bus bandwidth {bandwidth}")));
    if let Some(warning) = report.cores().warning() {
        text.push_str(&look.field("cores", &look.notice(&warning)));
    }
    let wrong: u64 = rows.iter().map(Row::wrong).sum();
    let verdict = if !report.spec.check {
        "not checked".to_owned()
    } else if wrong == 0 {
        let sum = |of: fn(Launches) -> u64| rows.iter().map(|row| of(row.launches())).sum();
        let (checked, run): (u64, u64) = (sum(|it| it.checked), sum(|it| it.run));
        format!(
            "every element is right in {checked} of {run} launches, the first and the last of each figure"
        )
    } else {
        look.notice(&format!("{} wrong", count(wrong as usize, "element")))
    };
    text.push_str(&look.field("check", &verdict));
    text
}

/// The report as JSON.
pub fn json(report: &Report) -> Result<String> {
    let spec = &report.spec;
    let placement = |timing: Timing, bytes: u64, way: &executor::Choice| {
        json!({
            "algorithm": way.schedule.name(),
            "transfer": way.transfer.name(),
            "protocol": (way.transfer == Transfer::Fifo).then(|| way.protocol.name()),
            "channels": way.channels,
            "time_us": timing.time_us,
            "latency_us": timing.latency.map(|it| json!({
                "p50": it.p50_us,
                "p99": it.p99_us,
                "max": it.max_us,
                "launches": it.launches,
            })),
            "algorithm_bandwidth_gbps": algorithm(bytes, timing.time_us),
            "bus_bandwidth_gbps": bus(report, bytes, timing.time_us),
            "wrong": timing.wrong,
            "launches": timing.launches,
        })
    };
    let row = |(at, row): (usize, &Row)| {
        let in_place = row.in_place.zip(row.way_in_place);
        json!({
            "bytes": row.bytes,
            "count": row.count,
            "out_of_place": placement(row.separate, row.bytes, &row.way),
            "in_place": in_place.map(|(timing, way)| placement(timing, row.bytes, &way)),
            "predicted_us": row.predicted_us,
            "planned": report.planned.as_ref().and_then(|it| it.choices.get(at).cloned().flatten()),
        })
    };
    let value = json!({
        "collective": sizes::kebab(spec.collective),
        "ranks": spec.ranks,
        "processes": spec.processes,
        "launcher": report.joined.as_ref().map(|it| it.by),
        "hosts": report.joined.as_ref().map(|it| &it.reached.hosts),
        "net": report.joined.as_ref().map(|it| net(&it.reached)),
        "lost": report.joined.as_ref().map(|it| it.lost.iter().flat_map(|(ranks, _)| ranks).collect::<Vec<_>>()),
        "type": spec.element,
        "op": spec.collective.reduces().then_some(&spec.op),
        "root": spec.collective.has_root().then_some(spec.root),
        "plan": report.planned.as_ref().map(|it| &it.name),
        "other_programs_share": report.cores().share(),
        "rows": report.rows.iter().enumerate().map(row).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}
