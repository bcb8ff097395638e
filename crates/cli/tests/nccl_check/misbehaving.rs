//! Libraries that misbehave while they are loaded: the command ends after its time-out, says one
//! short sentence, and takes little memory. The libraries would stay for ten minutes or for ever:
//! an end within five minutes is the command's doing, however busy the machine is.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use libtest_mimic::{Completion, Failed};

use super::failures::{MACHINE, Watched, runs, until};
use super::{check, not_run, repository, topo};

/// The time-out of the command, seconds.
const TIMEOUT: u64 = 3;

/// Most memory that each process may map, KiB.
const MOST_MEMORY: u32 = 2 << 20;

/// Most bytes of the sentence: 300 characters of the library's words, and the command's.
const MOST_SENTENCE: usize = 1500;

const LATE: &str = "error: NCCL did not answer within 3 s, the time-out";

const FAILED: &str =
    "error: NCCL failed on this machine, which says nothing about the plan: unhandled system error";

/// How a library misbehaves, and how the sentence begins.
pub(crate) struct Mode {
    pub name: &'static str,
    says: &'static str,
}

const fn late(name: &'static str) -> Mode {
    Mode { name, says: LATE }
}

pub(crate) const MODES: [Mode; 21] = [
    late("hang"),
    late("spin"),
    late("signals"),
    late("daemon"),
    Mode {
        name: "daemon-exit",
        says: "error: NCCL ended with status 0 on host 0",
    },
    late("flood"),
    late("flood-lines"),
    late("flood-controls"),
    late("garbage"),
    late("close-output"),
    late("close-all"),
    late("output-is-log"),
    late("memory"),
    late("long-id"),
    Mode {
        name: "silent-host",
        says: "libnccl.so.2 the first host says why\n",
    },
    Mode {
        name: "child-exit",
        says: "error: NCCL ended with status 3 on host ",
    },
    Mode {
        name: "exit",
        says: "error: NCCL ended with status 0 on host ",
    },
    Mode {
        name: "abort",
        says: "error: NCCL crashed (signal 6) on host ",
    },
    Mode {
        name: "crash",
        says: "error: NCCL crashed (signal 11) in NCCL's own function fail_to_start, on host ",
    },
    Mode {
        name: "system-error",
        says: FAILED,
    },
    Mode {
        name: "another-machine",
        says: FAILED,
    },
];

/// The library; `None` without a C compiler.
fn library(folder: &Path, mode: &str) -> Option<PathBuf> {
    let library = folder.join("libnccl.so.2");
    let source = repository().join("crates/cli/tests/nccl_check/misbehaves.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-O0", "-shared", "-fPIC", "-o"]);
    compiler.arg(&library).arg(format!("-DMODE=\"{mode}\""));
    let done = compiler.arg(source).status();
    done.is_ok_and(|it| it.success()).then_some(library)
}

/// The daemons that a sentence names are ended.
fn end_daemons(said: &str) -> Result<(), Failed> {
    let number = said
        .split_once("daemon ")
        .and_then(|(_, rest)| rest.split_whitespace().next()?.parse::<u32>().ok());
    let number = number.ok_or_else(|| format!("no daemon is named: {said}"))?;
    check(runs(number), || "the daemon has ended".into())?;
    let killed = Command::new("kill")
        .args(["-9", &number.to_string()])
        .status()?;
    check(killed.success(), || format!("{killed}"))
}

pub(crate) fn ends(mode: &Mode) -> Result<Completion, Failed> {
    let folder = tempfile::tempdir()?;
    let Some(library) = library(folder.path(), mode.name) else {
        return not_run("there is no C compiler");
    };
    let watched = Watched::new()?;
    let mut command = topo(MACHINE, &library);
    command.args(["--timeout", &TIMEOUT.to_string()]);
    // A daemon's number is known of one host only.
    let hosts = if mode.name.starts_with("daemon") {
        1
    } else {
        2
    };
    command.args(["--hosts", &hosts.to_string()]);
    let mut shell = Command::new("bash");
    shell.current_dir(repository());
    watched.lead(&mut shell);
    let limit = format!("ulimit -v {MOST_MEMORY} && exec \"$0\" \"$@\"");
    shell
        .args(["-c", &limit])
        .arg(command.get_program())
        .args(command.get_args());
    shell.stdin(std::process::Stdio::null());
    shell.stdout(std::process::Stdio::piped());
    shell.stderr(std::process::Stdio::piped());
    let begun = Instant::now();
    let mut process = shell.spawn()?;
    let ended = until("the command ends", || {
        process.try_wait().is_ok_and(|it| it.is_some())
    });
    if ended.is_err() {
        process.kill()?;
    }
    ended?;
    let took = begun.elapsed();
    let said = process.wait_with_output()?;
    let err = String::from_utf8_lossy(&said.stderr);
    if mode.name.starts_with("daemon") {
        end_daemons(&err)?;
    }
    let shown: String = err.chars().take(MOST_SENTENCE).collect();
    let right =
        said.status.code() == Some(2) && err.starts_with("error: ") && err.contains(mode.says);
    check(right, || format!("ended with {:?}: {shown}", said.status))?;
    let plain = !err.trim_end().chars().any(char::is_control);
    check(plain && err.len() <= MOST_SENTENCE, || {
        format!("{} bytes: {shown:?}", err.len())
    })?;
    let waited = mode.says != LATE || took.as_secs() >= TIMEOUT;
    check(waited, || format!("ended after {took:?}"))?;
    check(said.stdout.is_empty(), || "something was printed".into())?;
    watched.nothing_is_left()?;
    Ok(Completion::Completed)
}
