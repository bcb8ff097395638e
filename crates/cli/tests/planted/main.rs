//! Jobs of unmodified NCCL with a planted fault, and what `topo diagnose` says of them; living
//! jobs, and what `topo watch` says.
//!
//! `kinds.toml` has the faults, `watched.toml` the living jobs. Processes have the phantom GPUs of
//! a machine, bootstrap and RAS are NCCL's own. `cargo xtask planted` runs all kinds and prints a
//! table. Logs and reports stay in `target/planted`, where `--again` diagnoses them without running
//! NCCL.

mod job;
mod judge;
mod kind;
mod table;
mod watched;

use std::io::stdin;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use judge::Outcome;
use kind::Kind;

/// All versions, those of `cargo xtask fetch nccl`.
const VERSIONS: [&str; 6] = ["2.27.7", "2.28.9", "2.29.7", "2.30.7", "2.31.2", "2.32.3"];

/// The first argument of a process of a job, and of a run that prints the table.
const PROCESS: &str = "scripted-process";
const TABLE: &str = "--table";
const WATCHED: &str = "--watched";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some(PROCESS) => return process(),
        Some(TABLE) if arguments.iter().any(|it| it == WATCHED) => {
            return watched::table(&arguments[2..]);
        }
        Some(TABLE) => return table::run(&arguments[1..]),
        _ => {}
    }
    let kinds = match kind::all() {
        Ok(kinds) => kinds,
        Err(error) => {
            eprintln!("kinds.toml: {}", error.message().unwrap_or_default());
            return ExitCode::FAILURE;
        }
    };
    let mut trials = Vec::new();
    for (name, kind) in kinds {
        if kind.quick {
            let (name, kind) = (name.clone(), kind.clone());
            let newest = &VERSIONS[VERSIONS.len() - 1..];
            trials.push(Trial::ignorable_test(name.clone(), move || {
                test(&name, &kind, newest)
            }));
        }
        let deep = Trial::ignorable_test(format!("deep::{name}"), move || {
            test(&name, &kind, &VERSIONS)
        });
        trials.push(deep.with_ignored_flag(true));
    }
    let watched = Trial::ignorable_test("deep::watched", watched::test);
    trials.push(watched.with_ignored_flag(true));
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// A process of a job.
fn process() -> ExitCode {
    match nccl_binary::scripted::serve(&mut stdin().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a kind in versions; fails if one is diagnosed wrongly or cannot be planted.
fn test(name: &str, kind: &Kind, versions: &[&str]) -> Result<Completion, Failed> {
    let mut ran = 0;
    for version in versions.iter().filter(|it| kind.is_of(it)) {
        if library(version).is_none() {
            continue;
        }
        let folder = target().join("planted").join(format!("{name}_{version}"));
        job::run(kind, version, &folder)?;
        for (form, outcome) in judge::both(kind, &folder)? {
            if let Outcome::Wrong(why) | Outcome::Failed(why) = outcome {
                return Err(format!("{version}, {form}: {why}; {}", folder.display()).into());
            }
        }
        ran += 1;
    }
    Ok(match ran {
        0 => Completion::ignored_with(
            "not run: no such NCCL is here; cargo xtask fetch nccl fetches it",
        ),
        _ => Completion::Completed,
    })
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    target.map_or_else(|| repository().join("target"), Into::into)
}

/// NCCL's library of a version, if it was fetched.
fn library(version: &str) -> Option<PathBuf> {
    let folder = target().join("nccl").join(version);
    let library = folder.join("nvidia/nccl/lib/libnccl.so.2");
    library.is_file().then_some(library)
}
