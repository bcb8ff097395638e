//! The comparison of the fault with the verdicts of `topo diagnose`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::Failed;
use serde::Deserialize;

use super::job::{ALL_LINES, PLANTED, WARNINGS};
use super::kind::Kind;
use super::repository;

/// How good a diagnosis is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The first verdict names the fault.
    Right,
    /// It names something near it, or not all places.
    Near(String),
    /// Nothing is named, as it must be.
    RightlySilent,
    /// Nothing is named.
    Silent,
    /// Another cause is named as possible.
    Unsure(String),
    /// Another cause is named as proved or likely, or another place.
    Wrong(String),
    /// The fault had no effect, or the job could not run.
    Failed(String),
}

impl Outcome {
    /// Its word in the table.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Right => "right",
            Self::Near(_) => "near",
            Self::RightlySilent => "silent=",
            Self::Silent => "silent",
            Self::Unsure(_) => "unsure",
            Self::Wrong(_) => "WRONG",
            Self::Failed(_) => "failed",
        }
    }
}

/// Warnings of healthy jobs without InfiniBand or GDRCopy.
const HEALTHY: [&str; 2] = ["lib wrapper not initialized", "GDRCopy"];

#[derive(Deserialize)]
struct Answer {
    verdicts: Vec<Verdict>,
}

#[derive(Deserialize)]
struct Verdict {
    cause: String,
    certainty: String,
    what: String,
    ranks: Vec<u32>,
    hosts: Vec<String>,
}

impl Verdict {
    fn text(&self) -> String {
        let Self {
            cause,
            certainty,
            what,
            ranks,
            hosts,
        } = self;
        format!("{cause} {certainty} ranks {ranks:?} hosts {hosts:?}: {what}")
    }
}

/// The outcomes of the whole log of each process, and of the warnings of all in one file.
pub(crate) fn both(kind: &Kind, folder: &Path) -> Result<[(&'static str, Outcome); 2], Failed> {
    let planted = fs::read_to_string(folder.join(PLANTED))?;
    let mut functions = kind.plant.iter();
    let mut of_ranks = kind.rank.values().flat_map(|it| &it.plant);
    let made = |plant: &String| {
        let function = plant.split_whitespace().next().unwrap_or_default();
        planted.lines().any(|it| it == function)
    };
    let failed = if planted.lines().any(|it| it == "-") {
        Some("the text is not in the log")
    } else if !functions.all(made) || !of_ranks.all(made) {
        Some("a planted call was not made")
    } else if kind.cause.is_empty() && !planted.lines().any(|it| it == "ended") {
        Some("the job did not do all steps")
    } else {
        None
    };
    if let Some(why) = failed {
        let failed = || Outcome::Failed(why.to_owned());
        return Ok([("info", failed()), ("warn", failed())]);
    }
    Ok([
        ("info", of(kind, &folder.join(ALL_LINES))?),
        // Warnings name no ranks.
        (
            "warn",
            of(
                &Kind {
                    at_ranks: None,
                    ..kind.clone()
                },
                &folder.join(WARNINGS),
            )?,
        ),
    ])
}

/// The outcome for an input.
fn of(kind: &Kind, input: &Path) -> Result<Outcome, Failed> {
    let program = std::env::var_os("TOPO_PROGRAM").map(PathBuf::from);
    let program = program.unwrap_or_else(|| env!("CARGO_BIN_EXE_topo").into());
    let output = Command::new(program)
        .args(["diagnose", "--json"])
        .arg(input)
        .current_dir(repository())
        .output()?;
    let answer: Result<Answer, _> = serde_json::from_slice(&output.stdout);
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    let answer = answer.map_err(|error| format!("{error}: {}", said()))?;
    Ok(match compare(kind, &answer) {
        // A job that waits leaves nothing at that level.
        Outcome::Silent if input.is_file() && !has_warning(input)? => Outcome::RightlySilent,
        outcome => outcome,
    })
}

/// Whether a file has a warning of NCCL, but for one that versions print in healthy jobs.
fn has_warning(file: &Path) -> Result<bool, Failed> {
    let text = fs::read_to_string(file)?;
    let mut warnings = text.lines().filter(|it| it.contains(" NCCL WARN "));
    Ok(warnings.any(|it| !HEALTHY.iter().any(|healthy| it.contains(healthy))))
}

fn compare(kind: &Kind, answer: &Answer) -> Outcome {
    let Some(first) = answer.verdicts.first() else {
        return match kind.cause.is_empty() || kind.unseen {
            true => Outcome::RightlySilent,
            false => Outcome::Silent,
        };
    };
    let text = first.text();
    let is_in = |list: &[String]| list.contains(&first.cause);
    let misplaced = kind
        .at_hosts
        .as_ref()
        .is_some_and(|hosts| first.hosts.iter().any(|host| !hosts.contains(host)))
        || kind
            .at_ranks
            .as_ref()
            .is_some_and(|ranks| first.ranks.iter().any(|rank| !ranks.contains(rank)));
    let hosts_named = kind
        .at_hosts
        .as_ref()
        .map(|it| it.len() == first.hosts.len());
    let ranks_named = kind
        .at_ranks
        .as_ref()
        .map(|it| it.len() == first.ranks.len());
    let all_named = match (hosts_named, ranks_named) {
        (None, None) => true,
        (hosts, ranks) => hosts == Some(true) || ranks == Some(true),
    };
    match (is_in(&kind.cause), is_in(&kind.near), misplaced) {
        (true, _, false) if all_named => Outcome::Right,
        (true, _, false) | (_, true, false) => Outcome::Near(text),
        (false, false, _) if first.certainty == "possible" && !kind.cause.is_empty() => {
            Outcome::Unsure(text)
        }
        _ => Outcome::Wrong(text),
    }
}
