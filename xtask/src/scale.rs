//! `cargo xtask scale FILE`: what joining many equal hosts costs.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use plan::GraphKind;
use planner::{Cluster, Joined, Settings};
use topology::System;

#[derive(clap::Args)]
pub struct Arguments {
    /// The topology file of one host
    topology: PathBuf,
    /// How many of them
    #[arg(long, default_value_t = 16_384)]
    hosts: u32,
    /// Place this second machine after each of the first
    #[arg(long)]
    alternate: Option<PathBuf>,
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

fn read(path: &std::path::Path) -> Result<System> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    Ok(System::from_document(&topology::xml::parse(
        &path.to_string_lossy(),
        &bytes,
    )?)?)
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut cluster = Cluster::new();
    let machine = cluster.add_machine(read(&arguments.topology)?);
    match &arguments.alternate {
        None => cluster.place(machine, arguments.hosts),
        Some(other) => {
            let other = cluster.add_machine(read(other)?);
            for host in 0..arguments.hosts {
                cluster.place(if host % 2 == 0 { machine } else { other }, 1);
            }
        }
    }
    let settings = Settings::default();
    let mut mark = Instant::now();
    let mut lap = || std::mem::replace(&mut mark, Instant::now()).elapsed();
    let plan = cluster.plan(false, &settings)?;
    report("search of the distinct machines", lap(), "");
    let joined = Joined::new(plan, &settings)?;
    let layout = joined.layout();
    let (ranks, channels) = (layout.ranks(), joined.expansion.channels());
    report(
        "join",
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
    Ok(ExitCode::SUCCESS)
}
