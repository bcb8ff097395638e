//! The costs of planning a job of many equal hosts, from the topology file to one rank's view.
//!
//! Rows come from whole processes of `topo` in the profile `dist`.

use std::ffi::OsString;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use plan::{GraphKind, Plan};
use planner::{Job, Settings};
use topology::xml::Document;

use super::Arguments;
use crate::whole::measure::{self, ProcessCosts, Table, cell};

/// Number of views that are made to time one.
const SAMPLE: u32 = 1000;

/// Prints the table of planning.
pub(super) fn table(arguments: &Arguments, topology: &Path) -> Result<()> {
    let topo = measure::topo(arguments.topo.as_deref())?;
    let heads = [
        "hosts",
        "ranks",
        "`topo plan -o`, ms",
        "memory, MB",
        "plan file, KB",
        "`topo show --rank`, ms",
        "memory, MB",
        "one more rank, µs",
    ];
    let (table, head) = Table::new(0, &heads);
    println!("{head}");
    for hosts in &arguments.hosts {
        let row = row(&topo, arguments, topology, *hosts)?;
        println!("{}", table.row(&row));
    }
    Ok(())
}

/// The fastest of several runs.
fn fastest(arguments: &Arguments, command: &[OsString]) -> Result<ProcessCosts> {
    let runs = (0..arguments.runs.max(1)).map(|_| measure::once(command));
    let runs: Vec<ProcessCosts> = runs.collect::<Result<_>>()?;
    let fastest = runs
        .into_iter()
        .min_by(|one, other| one.seconds.total_cmp(&other.seconds));
    fastest.context("nothing was measured")
}

/// One row: planning, the file, the view of the last rank, and the time of a view once the plan is
/// read.
fn row(topo: &Path, arguments: &Arguments, topology: &Path, hosts: u32) -> Result<[String; 8]> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("plan.json");
    let options = [
        "plan",
        "--hosts",
        &hosts.to_string(),
        "--format",
        "quiet",
        "-o",
    ];
    let mut command = measure::command(topo, &options, Some(&file));
    command.push(topology.into());
    let planned = fastest(arguments, &command)?;
    let text = std::fs::read_to_string(&file)?;
    let plan = Plan::from_json(&text)?;
    let expansion = plan.expansion()?;
    let ranks = expansion.layout().ranks();
    let last = (ranks - 1).to_string();
    let command = measure::command(topo, &["show", "--rank", &last], Some(&file));
    let viewed = fastest(arguments, &command)?;
    let start = Instant::now();
    let mut links = 0;
    for index in 0..SAMPLE {
        // Spread over the job and the local ranks of a host.
        let rank = (u64::from(index) * u64::from(ranks) / u64::from(SAMPLE)) as u32 + index % 8;
        links += expansion.rank_view(rank.min(ranks - 1))?.channels.len();
    }
    ensure!(links > 0, "ranks without channels");
    let view = start.elapsed() / SAMPLE;
    Ok([
        hosts.to_string(),
        ranks.to_string(),
        cell(Some(planned.seconds * 1e3), 1),
        cell(Some(planned.megabytes), 1),
        cell(Some(text.len() as f64 / 1024.0), 1),
        cell(Some(viewed.seconds * 1e3), 1),
        cell(Some(viewed.megabytes), 1),
        cell(Some(view.as_secs_f64() * 1e6), 1),
    ])
}

/// Peak memory of this process so far, MB; 0 if the system does not report it.
fn peak_megabytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or(0) / 1024
}

fn read(path: &Path) -> Result<Arc<Document>> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let document = topology::xml::parse(&path.to_string_lossy(), &bytes)?;
    Ok(Arc::new(document))
}

/// Times planning, and a rank's queries of the plan.
pub(super) fn phases(arguments: &Arguments, topology: &Path, hosts: u32) -> Result<()> {
    let first = read(topology)?;
    let job = match &arguments.alternate {
        None => Job::hosts(first, hosts),
        Some(other) => {
            let pair = [first, read(other)?].map(|document| Job::hosts(document, 1).hosts);
            let all = pair.concat().into_iter().cycle();
            Job::of(all.take(hosts as usize).collect())
        }
    };
    let start = Instant::now();
    let planned = planner::plan(&job, &Settings::default())?;
    let took = start.elapsed();
    let (layout, expansion) = (planned.job.layout(), &planned.job.expansion);
    let (ranks, channels) = (layout.ranks(), expansion.channels());
    let nodes = layout.nodes();
    report(
        "plan",
        took,
        &format!("{nodes} nodes, {ranks} ranks, {channels} channels"),
    );
    let last = ranks - 1;
    let one = || {
        for channel in 0..channels {
            black_box(expansion.ring_place(last, channel));
            black_box(expansion.tree_place(last, channel));
        }
        black_box(expansion.nvls_place(last));
        Ok(String::new())
    };
    let connections = || {
        let rings = expansion.sends(last, GraphKind::Ring)?.len();
        let trees = expansion.sends(last, GraphKind::Tree)?.len();
        Ok(format!("{} connections", rings + trees))
    };
    let schedule = || Ok(format!("{} rounds", expansion.schedule(last).count()));
    let rings = || {
        let rings = (0..channels).map(|channel| expansion.ring(channel).collect());
        let rings: Vec<Vec<u32>> = rings.collect();
        Ok(format!(
            "{} entries",
            rings.iter().map(Vec::len).sum::<usize>()
        ))
    };
    let trees = || {
        let pairs = (0..channels).flat_map(|channel| (0..ranks).map(move |rank| (rank, channel)));
        let up = |(rank, channel)| expansion.tree_place(rank, channel).and_then(|it| it.up);
        let parents: Vec<u32> = pairs.map(|pair| up(pair).unwrap_or(u32::MAX)).collect();
        Ok(format!("{} entries", black_box(parents).len()))
    };
    let phases: [(&str, &dyn Fn() -> Result<String>); 5] = [
        ("one rank: rings, trees, NVLS", &one),
        ("one rank: connections", &connections),
        ("one rank: point-to-point schedule", &schedule),
        ("all rings, written out", &rings),
        ("all trees, written out", &trees),
    ];
    for (what, phase) in phases {
        let start = Instant::now();
        let result = phase()?;
        report(what, start.elapsed(), &result);
    }
    Ok(())
}

fn report(what: &str, took: Duration, result: &str) {
    let (took, peak) = (took.as_secs_f64() * 1e6, peak_megabytes());
    println!("{what:44} {took:12.1} µs   peak {peak:4} MB   {result}");
}
