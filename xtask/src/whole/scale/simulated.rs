//! Simulated all-reduces of many equal hosts.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Arguments;
use crate::whole::measure::{self, Table, cell};

/// Algorithm and size of each pair of columns.
const CASES: [(&str, &str); 4] = [
    ("ring", "64K"),
    ("tree", "64K"),
    ("ring", "1G"),
    ("tree", "1G"),
];

/// Prints the table.
pub(super) fn table(arguments: &Arguments, topology: &Path) -> Result<()> {
    let topo = measure::topo(arguments.topo.as_deref())?;
    let names = CASES.map(|(algorithm, size)| format!("{algorithm} {size}, µs"));
    let columns = names.iter().flat_map(|name| [name.as_str(), "steps"]);
    let heads: Vec<&str> = ["hosts", "ranks"].into_iter().chain(columns).collect();
    let (table, head) = Table::new(0, &heads);
    println!("{head}");
    for hosts in &arguments.hosts {
        let mut row = vec![hosts.to_string(), String::new()];
        for (algorithm, size) in CASES {
            let value = simulate(&topo, topology, *hosts, (algorithm, size))?;
            row[1] = value["ranks"].to_string();
            row.push(cell(value["time_us"].as_f64(), 0));
            row.push(value["steps"].to_string());
        }
        println!("{}", table.row(&row));
    }
    Ok(())
}

/// The result of `topo simulate` for an all-reduce.
fn simulate(
    topo: &Path,
    topology: &Path,
    hosts: u32,
    (algorithm, size): (&str, &str),
) -> Result<Value> {
    let mut command = Command::new(topo);
    command.arg("simulate").arg(topology);
    command.args(["--hosts", &hosts.to_string(), "--collective", "all-reduce"]);
    command.args(["--algorithm", algorithm, "--protocol", "simple"]);
    command.args(["--size", size, "--json"]);
    let output = command.output().context("running topo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}", said.trim_end());
    Ok(serde_json::from_slice(&output.stdout)?)
}
