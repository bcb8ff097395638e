//! The page of `topo run` above and below its table.
//!
//! In reading order: this file, [`table`], [`explain`]; [`calibrated`] (of a calibration).

pub mod calibrated;
pub mod explain;
pub mod table;

use pages::numbers::count;
use pages::terminal::Look;

use crate::figures::{average, average_bandwidth, bandwidths, bus};
use crate::{LaunchReport, Launches, NetworkOptions, RunReport, RunRow, RunsOn};

/// The head of the page.
pub fn head(report: &RunReport, look: Look) -> String {
    let spec = &report.spec;
    // Ranks that continue without lost ones print a second page.
    let restarted = report.launch.as_ref().is_some_and(|it| !it.lost.is_empty());
    let mut text = if restarted { "\n" } else { "" }.to_owned();
    text.push_str(&look.title(
        &format!("{} of {}", spec.collective.command_name(), ranks(report)),
        "",
    ));
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
                "{} as NCCL {}: its rings and trees; column plan has its choice, which is for GPUs",
                planned.name, planned.nccl
            ),
        ));
    }
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
    let of_processes = match &report.launch {
        Some(LaunchReport { threads, .. }) if *threads > 1 => {
            format!("threads of {} processes", spec.ranks / threads)
        }
        _ => kind.to_owned(),
    };
    format!("{} {of_processes}, {}{reduces}", spec.ranks, spec.element)
}

/// How ranks reach each other, here and in the plan.
fn places(report: &RunReport) -> String {
    let spec = &report.spec;
    // The head of the page says how ranks on GPUs reach each other.
    let on_gpus = spec.backend != RunsOn::Cpu;
    let own = if let Some(joined) = &report.launch {
        &reached(joined)
    } else if spec.hosts > 1 {
        let (hosts, network) = (spec.hosts, spec.network.as_ref());
        let network = network.map_or_else(String::new, NetworkOptions::in_rehearsal);
        let shm = if on_gpus { "" } else { "SHM on each, " };
        &format!("act as {hosts} hosts: {shm}NET between them, {network}")
    } else {
        match (spec.processes, on_gpus) {
            (true, true) => "processes",
            (true, false) if spec.callers_memory => {
                "SHM: one process each, with buffers that the others do not map"
            }
            (true, false) => "SHM: one process each, which map each other's buffers",
            (false, true) => "threads of one process",
            (false, false) => "P2P: threads of one process, which access each other's buffers",
        }
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
    let own = (joined.threads > 1).then(|| format!("P2P for {}", joined.threads - 1));
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
    let reaches: Vec<String> = [own, shared, remote].into_iter().flatten().collect();
    let reaches = if reaches.is_empty() {
        "alone".to_owned()
    } else {
        reaches.join(", ")
    };
    format!("started by {}; from rank 0 {reaches}", joined.by)
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

/// Six digits, as C's `%g` prints a number of ordinary size.
fn six_digits(value: f64) -> String {
    let digits = 5.0 - value.max(1e-4).log10().floor();
    format!("{value:.*}", digits.max(0.0) as usize)
}

/// The last lines of a table of nccl-tests, which scripts look for.
fn last_lines(report: &RunReport, wrong: u64) -> String {
    let mut text = "\n".to_owned();
    if report.spec.check {
        let verdict = if wrong == 0 { "OK" } else { "FAILED" };
        text.push_str(&format!("# Out of bounds values : {wrong} {verdict}\n"));
    }
    if let Some(average) = average_bandwidth(report) {
        text.push_str(&format!(
            "# Avg bus bandwidth    : {}\n",
            six_digits(average)
        ));
    }
    text
}

/// The summary of the rows.
pub fn summary(report: &RunReport, look: Look) -> String {
    let rows = &report.rows;
    let mut text = String::new();
    let [separate, in_place] = bandwidths(report).map(|it| average(&it));
    let predicted = rows.iter().filter_map(|row| {
        let time = row.predicted_us?;
        Some(bus(report, row.bytes, time))
    });
    let predicted = average(&predicted.collect::<Vec<_>>());
    let mut bandwidth = separate.map_or_else(String::new, |it| format!("{it:.2} GB/s"));
    if let Some(in_place) = in_place {
        bandwidth.push_str(&format!(", in place {in_place:.2} GB/s"));
    }
    match predicted {
        Some(predicted) => bandwidth.push_str(&format!(", predicted {predicted:.2} GB/s")),
        None => bandwidth.push_str(
            "; not predicted: the cost profile has no figures for it (topo run --calibrate)",
        ),
    }
    text.push_str(&look.field("average", &format!("bus bandwidth {bandwidth}")));
    if let Some(warning) = report.cores().warning() {
        text.push_str(&look.field("cores", &look.notice(&warning)));
    }
    let wrong = rows.iter().map(RunRow::wrong).fold(0, u64::saturating_add);
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
    text.push_str(&last_lines(report, wrong));
    text
}
