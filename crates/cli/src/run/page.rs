//! The page of `topo run`: the table that nccl-tests' users know, and what it comes to.

use anyhow::Result;
use executor::Choice;
use net::Reached;
use program::Transfer;
use serde_json::json;

use super::{FigureTiming, Latency, LaunchReport, Launches, RunReport, RunRow};
use crate::render::table::Columns;
use crate::render::{Look, count, or_dash};
use crate::{output, sizes};

pub fn page(report: &RunReport, look: Look) -> String {
    let spec = &report.spec;
    let mut text = look.title(
        &format!("{} of {}", spec.collective.command_name(), ranks(report)),
        "",
    );
    text.push_str(&look.field("ranks", &places(report)));
    if let Some(joined) = &report.launch {
        for (name, line) in joined_lines(joined) {
            text.push_str(&look.field(name, &line));
        }
    }
    if let Some(planned) = &report.planned {
        text.push_str(&look.field(
            "plan",
            &format!(
                "{}: its rings and trees; column plan has its choice, which is for GPUs",
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

fn ranks(report: &RunReport) -> String {
    let spec = &report.spec;
    let kind = match (spec.processes, spec.ranks) {
        (true, 1) => "process",
        (true, _) => "processes",
        (false, 1) => "thread",
        (false, _) => "threads",
    };
    let reduces = if spec.collective.reduces() {
        format!(", {}", spec.op)
    } else {
        String::new()
    };
    format!("{} {kind}, {}{reduces}", spec.ranks, spec.element)
}

/// How ranks reach each other, here and in the plan.
fn places(report: &RunReport) -> String {
    let spec = &report.spec;
    let own = if let Some(joined) = &report.launch {
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
fn reached(joined: &LaunchReport) -> String {
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
    let reaches: Vec<String> = [shared, remote].into_iter().flatten().collect();
    let reaches = if reaches.is_empty() {
        "alone".to_owned()
    } else {
        reaches.join(", ")
    };
    format!("started by {}; from rank 0 {reaches}", joined.by)
}

/// The network between hosts, as JSON.
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

fn joined_lines(joined: &LaunchReport) -> Vec<(&'static str, String)> {
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
fn table(report: &RunReport, look: Look) -> String {
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

fn columns(report: &RunReport, look: Look, separate: bool, in_place: bool) -> Columns {
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
        let choice = if separate {
            Some(row.choice)
        } else {
            row.choice_in_place
        };
        cells.extend(choice.map_or_else(|| ["–"; 3].map(str::to_owned), in_words));
        if separate {
            cells.extend(figures(report, row, Some(row.separate)));
        }
        if in_place {
            cells.extend(figures(report, row, row.in_place));
        }
        if separate {
            let time = row.predicted_us;
            cells.push(or_dash(time.map(|time| gbps(bus(report, row.bytes, time)))));
        }
        if let Some(planned) = planned {
            let choice = planned.choices.get(at).cloned().flatten();
            cells.push(or_dash(choice));
        }
        table.row(cells);
    }
    table
}

fn in_words(choice: Choice) -> [String; 3] {
    [
        choice.schedule.name().to_owned(),
        protocol(choice),
        choice.channels.to_string(),
    ]
}

fn protocol(choice: Choice) -> String {
    match choice.transfer {
        Transfer::Direct => "direct".to_owned(),
        Transfer::Fifo => choice.protocol.name().to_owned(),
    }
}

fn figures(report: &RunReport, row: &RunRow, timing: Option<FigureTiming>) -> [String; 7] {
    let Some(timing) = timing else {
        return std::array::from_fn(|_| or_dash(None::<u64>));
    };
    let latency = |of: fn(&Latency) -> f64| {
        let time = timing.latency.as_ref().map(of);
        or_dash(time.map(micros))
    };
    [
        micros(timing.time_us),
        latency(|it| it.p50_us),
        latency(|it| it.p99_us),
        latency(|it| it.max_us),
        gbps(algorithm(row.bytes, timing.time_us)),
        gbps(bus(report, row.bytes, timing.time_us)),
        or_dash(timing.wrong),
    ]
}

/// Bytes of the message per time, GB/s.
fn algorithm(bytes: u64, time_us: f64) -> f64 {
    bytes as f64 / time_us / 1000.0
}

/// Bus bandwidth, GB/s: the load of the busiest link, as nccl-tests reports it.
fn bus(report: &RunReport, bytes: u64, time_us: f64) -> f64 {
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

fn summary(report: &RunReport, look: Look) -> String {
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
            .push_str("; not predicted: the cost profile has no figures for it (topo calibrate)"),
    }
    text.push_str(&look.field("average", &format!("bus bandwidth {bandwidth}")));
    if let Some(warning) = report.cores().warning() {
        text.push_str(&look.field("cores", &look.notice(&warning)));
    }
    let wrong: u64 = rows.iter().map(RunRow::wrong).sum();
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

pub fn json(report: &RunReport) -> Result<String> {
    let spec = &report.spec;
    let placement = |timing: FigureTiming, bytes: u64, choice: &executor::Choice| {
        json!({
            "algorithm": choice.schedule.name(),
            "transfer": choice.transfer.name(),
            "protocol": (choice.transfer == Transfer::Fifo).then(|| choice.protocol.name()),
            "channels": choice.channels,
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
    let row = |(at, row): (usize, &RunRow)| {
        let in_place = row.in_place.zip(row.choice_in_place);
        json!({
            "bytes": row.bytes,
            "count": row.count,
            "out_of_place": placement(row.separate, row.bytes, &row.choice),
            "in_place": in_place.map(|(timing, choice)| placement(timing, row.bytes, &choice)),
            "predicted_us": row.predicted_us,
            "planned": report.planned.as_ref().and_then(|it| it.choices.get(at).cloned().flatten()),
        })
    };
    let value = json!({
        "collective": spec.collective.command_name(),
        "ranks": spec.ranks,
        "processes": spec.processes,
        "launcher": report.launch.as_ref().map(|it| it.by),
        "hosts": report.launch.as_ref().map(|it| &it.reached.hosts),
        "net": report.launch.as_ref().map(|it| net(&it.reached)),
        "lost": report.launch.as_ref().map(|it| it.lost.iter().flat_map(|(ranks, _)| ranks).collect::<Vec<_>>()),
        "type": spec.element,
        "op": spec.collective.reduces().then_some(&spec.op),
        "root": spec.collective.has_root().then_some(spec.root),
        "plan": report.planned.as_ref().map(|it| &it.name),
        "other_programs_share": report.cores().share(),
        "rows": report.rows.iter().enumerate().map(row).collect::<Vec<_>>(),
    });
    output::json(&value)
}
