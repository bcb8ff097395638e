//! `cargo xtask torch-suite`: torch's own tests of backends on topo and on Gloo.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;
use xtask::workspace::{exit, target};

use super::{MODULES, Package, Python};

/// Tests that topo cannot pass, and why (docs/pytorch.md).
const KNOWN: [(&str, &str); 1] = [(
    "test_ddp_logging_data_cpu",
    "torch names every backend that it does not contain `custom`",
)];

#[derive(Args)]
pub(crate) struct Arguments {
    /// Ranks, each run in turn
    #[arg(long, value_delimiter = ',', default_value = "3,4")]
    ranks: Vec<u32>,
    #[command(flatten)]
    python: Python,
    /// Only tests whose names contain this regular expression (Python's)
    pattern: Option<String>,
}

/// How a test ended.
struct TestEnd {
    /// `pass`, `fail` or `skip`.
    state: String,
    /// Why it failed or was skipped.
    why: String,
}

/// The tests of a run, by their names.
type Tests = BTreeMap<String, TestEnd>;

/// Runs the tests and prints a table and what Gloo passes and topo does not. The tests of each run
/// are in `target/torch-suite`, a line of JSON for each.
///
/// # Errors
/// There is no torch, the package does not build, or a run ends with an error.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let python = arguments.python.path(&MODULES)?;
    let package = Package::build("dev")?;
    println!("| ranks | backend | run | passed | failed | skipped |");
    println!("|---|---|---|---|---|---|");
    let mut differences = Vec::new();
    for &ranks in &arguments.ranks {
        let [topo, gloo] = ["topo", "gloo"].map(|backend| {
            let tests = run_on(&package, &python, backend, ranks, arguments)?;
            let count = |state: &str| tests.values().filter(|it| it.state == state).count();
            let [passed, failed, skipped] = ["pass", "fail", "skip"].map(count);
            let run = passed + failed;
            println!("| {ranks} | {backend} | {run} | {passed} | {failed} | {skipped} |");
            anyhow::Ok(tests)
        });
        differences.extend(worse(ranks, &topo?, &gloo?));
    }
    differences.iter().for_each(|it| println!("{it}"));
    let passed = differences.iter().all(|it| it.starts_with("known"));
    Ok(exit(passed))
}

/// Runs the driver, and keeps its lines in a file.
fn run_on(
    package: &Package,
    python: &Path,
    backend: &str,
    ranks: u32,
    arguments: &Arguments,
) -> Result<Tests> {
    let folder = target().join("torch-suite");
    fs::create_dir_all(&folder)?;
    let mut file = fs::File::create(folder.join(format!("{backend}-{ranks}.jsonl")))?;
    let mut command = package.command(python, "tests/suite/distributed.py");
    command.arg(backend).arg(ranks.to_string());
    command.args(&arguments.pattern).stdout(Stdio::piped());
    let mut child = command.spawn().context("starting Python")?;
    let output = child.stdout.take().context("no output")?;
    let mut tests = Tests::new();
    for line in BufReader::new(output).lines() {
        let line = line?;
        writeln!(file, "{line}")?;
        let test: Value = serde_json::from_str(&line).with_context(|| line.clone())?;
        let text = |key: &str| test[key].as_str().unwrap_or_default().to_owned();
        let (state, why) = (text("state"), text("why"));
        tests.insert(text("test"), TestEnd { state, why });
    }
    let status = child.wait()?;
    ensure!(status.success(), "{backend}, {ranks} ranks: {status}");
    ensure!(!tests.is_empty(), "no test has such a name");
    Ok(tests)
}

/// A line for each test that Gloo passes and topo does not.
fn worse(ranks: u32, topo: &Tests, gloo: &Tests) -> Vec<String> {
    let passes = gloo.iter().filter(|(_, ended)| ended.state == "pass");
    let line = |(name, _): (&String, &TestEnd)| {
        let (state, why) = match topo.get(name) {
            Some(ended) if ended.state == "pass" => return None,
            Some(ended) => (ended.state.as_str(), ended.why.as_str()),
            None => ("not there", ""),
        };
        let known = KNOWN.iter().find(|(known, _)| known == name);
        Some(match known {
            Some((_, reason)) => format!("known: {name}, {ranks} ranks: {state}: {reason}"),
            None => format!("worse: {name}, {ranks} ranks: {state}: {why}"),
        })
    };
    passes.filter_map(line).collect()
}
