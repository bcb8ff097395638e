//! Cases under compute-sanitizer, where it is installed.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::gpu_test::page::Page;
use crate::gpu_test::parts::Cases;
use crate::gpu_test::report::Outcome;
use crate::gpu_test::test::Test;
use answers::gpu_test::Part;

/// The tools, and whether what they find is a failure. racecheck takes the barriers
/// with which warps hand over data for races.
const TOOLS: [(&str, bool); 3] = [
    ("memcheck", true),
    ("synccheck", true),
    ("racecheck", false),
];

/// Cases of a tool, which takes minutes for them.
const CASES: usize = 12;

/// Ranks, all on the first GPU.
const RANKS: u32 = 2;

/// Longest time of a tool, s.
const DEADLINE_S: u64 = 150;

/// The exit status of a tool that found something.
const FOUND: i32 = 9;

pub(crate) fn run(page: &mut Page<'_>) -> Result<()> {
    let note = format!("{CASES} cases of {RANKS} ranks on the first GPU.");
    page.section("compute-sanitizer", &note);
    let mut version = Command::new("compute-sanitizer");
    version.arg("--version");
    let missing = crate::child_process::run(version, page.test.deadline(DEADLINE_S)).err();
    for (tool, fails) in TOOLS {
        let name = format!("compute-sanitizer {tool}");
        match &missing {
            Some(why) => page.leave_out(&name, &format!("{why:#}"))?,
            None => page.check(&name, DEADLINE_S, |test, deadline, _| {
                one(test, tool, fails, deadline)
            })?,
        }
    }
    Ok(())
}

fn one(test: &Test<'_>, tool: &str, fails: bool, deadline: Duration) -> Result<Outcome> {
    let log = tempfile::NamedTempFile::new().context("cannot make a file for the tool's log")?;
    let mut command = Command::new("compute-sanitizer");
    command
        .args(["--tool", tool, "--error-exitcode", &FOUND.to_string()])
        .arg("--log-file")
        .arg(log.path())
        .arg(&test.program)
        .args(["gpu-test", "--part", Part::Shared.name()])
        .args(["--ranks", &RANKS.to_string()])
        .args(["--cases", &CASES.min(test.options.cases).to_string()])
        .args(["--timeout", &test.options.timeout.to_string()]);
    let ended = crate::child_process::run(command, deadline)?;
    let log = std::fs::read_to_string(log.path()).context("cannot read the tool's log")?;
    let summary = log.lines().rfind(|line| line.contains("====="));
    let summary = summary.unwrap_or("no summary").trim_matches(['=', ' ']);
    let found = ended.status.code() == Some(FOUND);
    if !found && !ended.status.success() {
        bail!("{} ({})", ended.last_words(), ended.status);
    }
    let cases: Cases = crate::child_process::parse(&ended)?;
    Ok(match cases.outcome() {
        Outcome::Right(_) if found && fails => Outcome::Failed(summary.to_owned()),
        Outcome::Right(_) if found => Outcome::Noted(format!("perhaps a false alarm: {summary}")),
        Outcome::Right(cases) => Outcome::Right(format!("{cases}, {summary}")),
        wrong => wrong,
    })
}
