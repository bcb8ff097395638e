//! `cargo xtask planted`: all kinds in all versions, and a table.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;

use libtest_mimic::Failed;

use super::judge::{Outcome, both};
use super::kind::Kind;
use super::{VERSIONS, job, kind, library, target};

type Cell = [(&'static str, Outcome); 2];

/// Runs the kinds whose name has one of the words, or all, and prints what is said of them.
/// `--again` diagnoses the logs of the last run; a version among the words is the only one.
/// Fails if a diagnosis is wrong, or a fault had no effect.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    match print(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {}", error.message().unwrap_or_default());
            ExitCode::from(2)
        }
    }
}

fn print(arguments: &[String]) -> Result<bool, Failed> {
    let is_again = arguments.iter().any(|it| it == "--again");
    let words: Vec<&String> = arguments.iter().filter(|it| !it.starts_with('-')).collect();
    let (only, words): (Vec<&String>, Vec<&String>) = words
        .into_iter()
        .partition(|it| VERSIONS.contains(&it.as_str()));
    let versions = VERSIONS
        .iter()
        .filter(|it| only.is_empty() || only.iter().any(|o| o == *it));
    let versions: Vec<&str> = versions
        .copied()
        .filter(|it| library(it).is_some())
        .collect();
    if versions.is_empty() {
        return Err("no NCCL is here; cargo xtask fetch nccl fetches it".into());
    }
    let mut kinds = kind::all()?;
    kinds.retain(|name, _| words.is_empty() || words.iter().any(|it| name.contains(it.as_str())));
    let mut cases = Vec::new();
    for (name, kind) in &kinds {
        let of = versions.iter().filter(|it| kind.is_of(it));
        cases.extend(of.map(|version| (name.as_str(), kind, *version)));
    }
    let cells = outcomes(&cases, is_again)?;
    let columns: String = versions.iter().map(|it| format!("{it:16}")).collect();
    println!("{:40} {columns}", "kind");
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut details = Vec::new();
    for name in kinds.keys() {
        let mut row = format!("{name:40} ");
        for version in &versions {
            let cell = cells.get(&(name.as_str(), *version));
            let word = cell.map(|cell| cell.each_ref().map(|(_, outcome)| outcome.word()));
            row += &format!("{:16}", word.map_or(String::new(), |words| words.join(" ")));
            for (form, outcome) in cell.into_iter().flatten() {
                *counts.entry(outcome.word()).or_default() += 1;
                if let Outcome::Near(why)
                | Outcome::Unsure(why)
                | Outcome::Wrong(why)
                | Outcome::Failed(why) = outcome
                {
                    details.push(format!("{} {name} {version} {form}: {why}", outcome.word()));
                }
            }
        }
        println!("{}", row.trim_end());
    }
    details.sort();
    println!("\n{}\n\n{counts:?}", details.join("\n"));
    Ok(!counts.contains_key("WRONG") && !counts.contains_key("failed"))
}

/// Runs the cases, as many at a time as there are cores.
fn outcomes<'a>(
    cases: &[(&'a str, &Kind, &'a str)],
    is_again: bool,
) -> Result<BTreeMap<(&'a str, &'a str), Cell>, Failed> {
    let waiting = Mutex::new(cases.iter());
    let done = Mutex::new(BTreeMap::new());
    let work = || {
        while let Some((name, kind, version)) = waiting.lock().ok().and_then(|mut it| it.next()) {
            let folder = target().join("planted").join(format!("{name}_{version}"));
            let ran = match is_again {
                true => Ok(()),
                false => job::run(kind, version, &folder),
            };
            let cell = ran
                .and_then(|()| both(kind, &folder))
                .unwrap_or_else(|error| {
                    let why = || Outcome::Failed(error.message().unwrap_or_default().to_owned());
                    [("info", why()), ("warn", why())]
                });
            if let Ok(mut done) = done.lock() {
                done.insert((*name, *version), cell);
            }
        }
    };
    let cores = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(work);
        }
    });
    done.into_inner().map_err(|_| "a thread panicked".into())
}
