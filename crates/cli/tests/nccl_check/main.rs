//! `topo nccl-check` with NCCL's libraries, and with one that hangs.
//! A test that cannot run here is reported as not run.

mod answers;
mod drawn;
mod failures;
mod graphs;
mod misbehaving;
mod obeyed;
mod outputs;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use outputs::{Case, Writer};

/// Versions that are asked about the same machines, all in the cache of `cargo xtask fetch nccl`.
const VERSIONS: [&str; 6] = ["2.27.7", "2.28.9", "2.29.7", "2.30.7", "2.31.2", "2.32.3"];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for version in VERSIONS {
        for sample in answers::SAMPLES {
            let name = format!("answers::{}_{version}", sample.name);
            trials.push(Trial::ignorable_test(name, move || {
                answers::of(version, sample)
            }));
        }
    }
    for version in VERSIONS {
        let name = format!("answers::better_rings_{version}");
        trials.push(Trial::ignorable_test(name, move || {
            answers::better_rings(version)
        }));
        for (number, sample) in obeyed::SAMPLES.iter().enumerate() {
            let name = format!("obeyed::{}_{version}", sample.name);
            let test = move || obeyed::each_entry(version, sample);
            let in_every_run = number == 0;
            trials.push(Trial::ignorable_test(name, test).with_ignored_flag(!in_every_run));
        }
        for kind in drawn::KINDS
            .into_iter()
            .filter(|kind| kind.is_known_to(version))
        {
            for hosts in drawn::HOSTS {
                let name = format!("drawn::{}_{hosts}_{version}", kind.name);
                let test = move || drawn::agree(version, kind, hosts);
                trials.push(Trial::ignorable_test(name, test).with_ignored_flag(true));
            }
        }
        let is_newest = VERSIONS.last() == Some(&version);
        trials.extend(outputs_of(version, is_newest));
        let name = format!("obeyed::bad_tables_are_harmless_{version}");
        let test = move || obeyed::bad_tables_are_harmless(version);
        trials.push(Trial::ignorable_test(name, test).with_ignored_flag(!is_newest));
        let name = format!("obeyed::constants_{version}");
        trials.push(Trial::ignorable_test(name, move || {
            obeyed::constants(version)
        }));
        let name = format!("graphs::sets_are_told_apart_{version}");
        let test = move || graphs::sets_are_told_apart(version, graphs::ALL);
        trials.push(Trial::ignorable_test(name, test).with_ignored_flag(true));
        let name = format!("graphs::files_are_followed_{version}");
        let all = move || graphs::files_are_followed(version, graphs::ALL);
        trials.push(Trial::ignorable_test(name, all).with_ignored_flag(true));
    }
    type Test = fn() -> Result<Completion, Failed>;
    let tests: [(&str, Test); 7] = [
        ("graphs::all_sets_are_written", graphs::all_sets_are_written),
        ("graphs::a_file_is_followed", || {
            graphs::files_are_followed("2.32.3", 2)
        }),
        ("graphs::some_sets_are_told_apart", || {
            graphs::sets_are_told_apart("2.32.3", 3)
        }),
        ("a_library_that_hangs", failures::a_library_that_hangs),
        ("a_killed_parent", failures::a_killed_parent),
        ("a_killed_host", failures::a_killed_host),
        ("too_little_memory", failures::too_little_memory),
    ];
    for mode in &misbehaving::MODES {
        let name = format!("misbehaving::{}", mode.name);
        trials.push(Trial::ignorable_test(name, move || misbehaving::ends(mode)));
    }
    for (name, test) in tests {
        trials.push(Trial::ignorable_test(name, test));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The files that each command writes for each job.
fn outputs_of(version: &'static str, is_newest: bool) -> Vec<Trial> {
    let mut trials = Vec::new();
    for writer in Writer::ALL {
        for machine in outputs::MACHINES {
            for hosts in outputs::HOSTS {
                let case = Case {
                    version,
                    writer,
                    machine,
                    hosts,
                };
                let name = format!("outputs::{}_{machine}_{hosts}_{version}", writer.name());
                let in_every_run = is_newest && outputs::IN_EVERY_RUN.contains(&(machine, hosts));
                let trial = Trial::ignorable_test(name, move || outputs::are_followed(case));
                trials.push(trial.with_ignored_flag(!in_every_run));
            }
        }
    }
    trials
}

fn not_run(why: &str) -> Result<Completion, Failed> {
    Ok(Completion::ignored_with(format!("not run: {why}")))
}

fn check(holds: bool, what: impl FnOnce() -> String) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(what().into()) }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// NCCL's library of a version, if it was fetched.
fn library(version: &str) -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| repository().join("target"), Into::into);
    let folder = target.join("nccl").join(version);
    let library = folder.join("nvidia/nccl/lib/libnccl.so.2");
    library.is_file().then_some(library)
}

fn not_fetched(version: &str) -> Result<Completion, Failed> {
    not_run(&format!(
        "NCCL {version} is not here; cargo xtask fetch nccl fetches it"
    ))
}

/// `topo nccl-check` of a machine of the repository.
fn topo(machine: &str, library: &Path) -> Command {
    let mut command = program("nccl-check", machine);
    command.arg("--nccl").arg(library);
    command
}

/// A command of `topo` with a machine of the repository.
fn program(name: &str, machine: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_topo"));
    command
        .current_dir(repository())
        .env("COLUMNS", "200")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .arg(name)
        .arg(Path::new("topologies").join(machine));
    command
}
