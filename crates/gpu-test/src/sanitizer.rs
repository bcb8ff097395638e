//! Cases under compute-sanitizer, where it is installed.

use std::process::Command;

use anyhow::bail;

use crate::child;
use crate::report::{Outcome, Section};
use crate::test::Test;

const TOOLS: [&str; 3] = ["memcheck", "racecheck", "synccheck"];

/// Cases of a tool, which takes minutes for them.
const CASES: &str = "12";

/// Ranks, all on the first GPU.
const RANKS: &str = "2";

/// Longest time of a tool, s.
const DEADLINE_S: u64 = 150;

/// The exit status of a tool that found something.
const FOUND: &str = "9";

pub fn run(test: &Test<'_>) -> Section {
    let checks = TOOLS.map(|tool| {
        let name = format!("compute-sanitizer {tool}");
        let mut version = Command::new("compute-sanitizer");
        version.arg("--version");
        if let Err(why) = child::run(version, test.deadline(DEADLINE_S)) {
            return test.left_out(&name, &format!("{why:#}"));
        }
        let mut command = Command::new("compute-sanitizer");
        command
            .args(["--tool", tool, "--error-exitcode", FOUND])
            .arg(&test.program)
            .args([
                "gpu-test", "--part", "shared", "--ranks", RANKS, "--cases", CASES,
            ]);
        test.check(&name, DEADLINE_S, |deadline| {
            let ended = child::run(command, deadline)?;
            let summary = ended.out.lines().rfind(|line| line.contains("====="));
            let summary = summary.unwrap_or("no summary").trim_matches(['=', ' ']);
            if !ended.status.success() {
                bail!("{summary} ({})", ended.status);
            }
            Ok(Outcome::Right(summary.to_owned()))
        })
    });
    Section {
        title: "compute-sanitizer".to_owned(),
        note: format!("{CASES} cases of {RANKS} ranks on the first GPU."),
        checks: checks.into(),
        figures: Vec::new(),
    }
}
