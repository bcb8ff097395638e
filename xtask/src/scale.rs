//! `cargo xtask scale FILE`: what a job of many equal hosts costs, from the topology file to one rank's view.
//!
//! Rows come from whole processes of `topo`, built as a release.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use plan::{GraphKind, Plan};
use planner::{Job, Settings};
use topology::xml::Document;

use crate::measure::{self, Measured, Table, cell};

/// Ranks whose views are worked out to time one.
const SAMPLE: u32 = 1000;

#[derive(clap::Args)]
pub struct Arguments {
    /// The topology file of one host
    topology: PathBuf,
    /// How many of them, one row each
    #[arg(long, value_delimiter = ',', default_values_t = [128, 1024, 8192, 16_384])]
    hosts: Vec<u32>,
    /// Runs of each process, of which the fastest counts
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// Time the phases of planning inside this process instead
    #[arg(long)]
    phases: bool,
    /// With --phases: place this second machine after each of the first
    #[arg(long, requires = "phases")]
    alternate: Option<PathBuf>,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.phases {
        for hosts in &arguments.hosts {
            phases(arguments, *hosts)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let topo = measure::topo(None)?;
    let heads = [
        "hosts",
        "ranks",
        "`topo plan -o`, ms",
        "memory, MB",
        "plan file, KB",
        "`topo rank`, ms",
        "memory, MB",
        "one more rank, µs",
    ];
    let (table, head) = Table::new(0, &heads);
    println!("{head}");
    for hosts in &arguments.hosts {
        println!("{}", table.row(&row(&topo, arguments, *hosts)?));
    }
    Ok(ExitCode::SUCCESS)
}

/// The fastest of several runs.
fn fastest(arguments: &Arguments, command: &[OsString]) -> Result<Measured> {
    let runs = (0..arguments.runs.max(1)).map(|_| measure::once(command));
    let runs: Vec<Measured> = runs.collect::<Result<_>>()?;
    let fastest = runs
        .into_iter()
        .min_by(|one, other| one.seconds.total_cmp(&other.seconds));
    fastest.context("nothing was measured")
}

/// One row of the table: planning, the file, the view of the last rank, and the time of a view once the plan is read.
fn row(topo: &Path, arguments: &Arguments, hosts: u32) -> Result<[String; 8]> {
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
    command.push(arguments.topology.clone().into());
    let planned = fastest(arguments, &command)?;
    let text = std::fs::read_to_string(&file)?;
    let expansion = Plan::from_json(&text)?.expand()?;
    let ranks = expansion.layout().ranks();
    let last = (ranks - 1).to_string();
    let command = measure::command(topo, &["rank", "--rank", &last], Some(&file));
    let viewed = fastest(arguments, &command)?;
    let start = Instant::now();
    let mut links = 0;
    for index in 0..SAMPLE {
        // Spread over the job, and over the places in a host.
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

/// Most memory this process has used so far, MB; 0 where the system does not tell.
fn peak_megabytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or(0) / 1024
}

fn report(what: &str, took: Duration, more: &str) {
    println!(
        "{what:44} {:12.1} µs   peak {:4} MB   {more}",
        took.as_secs_f64() * 1e6,
        peak_megabytes()
    );
}

fn read(path: &Path) -> Result<Arc<Document>> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let document = topology::xml::parse(&path.to_string_lossy(), &bytes)?;
    Ok(Arc::new(document))
}

/// Times planning, and what one rank asks of the plan.
fn phases(arguments: &Arguments, hosts: u32) -> Result<()> {
    let first = read(&arguments.topology)?;
    let job = match &arguments.alternate {
        None => Job::hosts(first, hosts),
        Some(other) => {
            let pair = [first, read(other)?].map(|document| Job::hosts(document, 1).hosts);
            Job::of(
                pair.concat()
                    .into_iter()
                    .cycle()
                    .take(hosts as usize)
                    .collect(),
            )
        }
    };
    let mut mark = Instant::now();
    let mut lap = || std::mem::replace(&mut mark, Instant::now()).elapsed();
    let planned = planner::plan(&job, &Settings::default())?;
    let joined = &planned.job;
    let layout = joined.layout();
    let (ranks, channels) = (layout.ranks(), joined.expansion.channels());
    report(
        "plan",
        lap(),
        &format!(
            "{} nodes, {ranks} ranks, {channels} channels",
            layout.nodes()
        ),
    );

    let mut sum = 0u64;
    let last = ranks - 1;
    for channel in 0..channels {
        sum += joined
            .expansion
            .ring_place(last, channel)
            .map_or(0, |place| u64::from(place.next));
        sum += joined
            .expansion
            .tree_place(last, channel)
            .and_then(|place| place.up)
            .map_or(0, u64::from);
    }
    sum += joined
        .expansion
        .nvls_place(last)
        .and_then(|place| place.head)
        .map_or(0, u64::from);
    report("one rank: rings, trees, NVLS", lap(), "");
    let mut connections = 0;
    for kind in [GraphKind::Ring, GraphKind::Tree] {
        connections += joined.expansion.sends(last, kind)?.len();
    }
    report(
        "one rank: connections",
        lap(),
        &format!("{connections} connections"),
    );
    let rounds = joined.expansion.schedule(last).count();
    report(
        "one rank: point-to-point schedule",
        lap(),
        &format!("{rounds} rounds"),
    );

    let rings: Vec<Vec<u32>> = (0..channels)
        .map(|channel| joined.expansion.ring(channel).collect())
        .collect();
    report(
        "all rings, written out",
        lap(),
        &format!("{} entries", rings.iter().map(Vec::len).sum::<usize>()),
    );
    let mut parents = Vec::with_capacity(ranks as usize * channels as usize);
    for channel in 0..channels {
        for rank in 0..ranks {
            parents.push(
                joined
                    .expansion
                    .tree_place(rank, channel)
                    .and_then(|place| place.up)
                    .unwrap_or(u32::MAX),
            );
        }
    }
    report(
        "all trees, written out",
        lap(),
        &format!("{} entries, check {sum}", parents.len()),
    );
    Ok(())
}
