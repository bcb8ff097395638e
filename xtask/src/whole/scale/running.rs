//! Costs of ranks on one host: starting them, their memory, and the times of an all-reduce.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Arguments;
use crate::whole::measure::{self, Table, cell};

/// The sizes of the all-reduces, as options of `topo run`: 16 bytes, 8 KiB and 4 MiB.
const SIZES: [&str; 6] = ["-b", "16", "-e", "4M", "-f", "512"];

/// Their names.
const NAMES: [&str; 3] = ["16 B", "8 KiB", "4 MiB"];

/// Prints the table.
pub(super) fn table(arguments: &Arguments) -> Result<()> {
    let topo = measure::topo(arguments.topo.as_deref())?;
    let mut heads = vec!["ranks".to_owned(), "start, s".to_owned()];
    // The system reports the peak of one process only.
    if !arguments.processes {
        heads.push("memory, MB".to_owned());
    }
    for name in NAMES {
        heads.extend([format!("{name}, µs"), "messages".to_owned()]);
    }
    heads.push("algorithms".to_owned());
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let (table, head) = Table::new(0, &heads);
    println!("{head}");
    for ranks in &arguments.ranks {
        println!("{}", table.row(&row(&topo, arguments, *ranks)?));
    }
    Ok(())
}

/// One row.
fn row(topo: &Path, arguments: &Arguments, ranks: u32) -> Result<Vec<String>> {
    let count = ranks.to_string();
    // Every rank would add up the elements of all others to check its own.
    let mut common = vec![
        "run",
        "all-reduce",
        "--ranks",
        &count,
        "--no-in-place",
        "--check",
        "0",
    ];
    if arguments.processes {
        common.push("--processes");
    }
    let once = ["-b", "16", "-e", "16", "-n", "1", "-w", "1"];
    let started = measure::once(&measure::command(
        topo,
        &[&common[..], &once].concat(),
        None,
    ))?;
    let all = [&common[..], &SIZES].concat();
    let mut row = vec![count.clone(), cell(Some(started.seconds), 2)];
    if !arguments.processes {
        let used = measure::once(&measure::command(topo, &all, None))?;
        row.push(cell(Some(used.megabytes), 0));
    }
    let timed = [&all[..], &["--json", "--explain"]].concat();
    let output = Command::new(topo).args(timed).output();
    let output = output.context("running topo")?;
    ensure!(output.status.success(), "topo run of {ranks} ranks failed");
    let value: Value = serde_json::from_slice(&output.stdout)?;
    let rows = value["rows"].as_array().context("topo run gave no rows")?;
    let mut algorithms: Vec<&str> = Vec::new();
    for figure in rows {
        let timing = &figure["out_of_place"];
        row.push(cell(timing["latency_us"]["p50"].as_f64(), 1));
        row.push(cell(figure["explained"][0]["messages"].as_f64(), 0));
        algorithms.extend(timing["algorithm"].as_str());
    }
    algorithms.dedup();
    row.push(algorithms.join(", "));
    Ok(row)
}
