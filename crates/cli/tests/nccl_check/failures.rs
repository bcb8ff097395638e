//! Libraries that hang, processes that are killed, and too little memory: one sentence, exit status
//! 2, and nothing left behind.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use libtest_mimic::{Completion, Failed};
use tempfile::TempDir;

use super::{check, library, not_fetched, not_run, repository, topo};

/// Longer than any process needs to start or end, even on a busy machine.
const LONG: Duration = Duration::from_secs(300);

/// The machine's GPUs do not matter to a library that hangs.
pub(crate) const MACHINE: &str = "workstation-2gpu";

/// A folder that must stay as it is, and what shared memory had at first.
pub(crate) struct Watched {
    folder: TempDir,
    segments: BTreeSet<String>,
}

impl Watched {
    pub(crate) fn new() -> Result<Self, Failed> {
        Ok(Self {
            folder: tempfile::tempdir()?,
            segments: segments(),
        })
    }

    /// Lets a command use the folder for everything that it may write.
    pub(crate) fn lead(&self, command: &mut Command) {
        for name in ["HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"] {
            command.env(name, self.folder.path());
        }
    }

    /// No file and no segment of NCCL was added.
    pub(crate) fn nothing_is_left(&self) -> Result<(), Failed> {
        let files = fs::read_dir(self.folder.path())?.count();
        check(files == 0, || format!("{files} files are left"))?;
        let left: Vec<String> = segments().difference(&self.segments).cloned().collect();
        check(left.is_empty(), || format!("segments are left: {left:?}"))
    }
}

/// Segments of shared memory that NCCL made.
fn segments() -> BTreeSet<String> {
    let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("nccl-")).collect()
}

/// A library that hangs when a communicator is made; `None` without a C compiler.
fn hanging(folder: &Path) -> Option<PathBuf> {
    let library = folder.join("libnccl.so.2");
    let source = repository().join("crates/cli/tests/nccl_check/hangs.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-O0", "-shared", "-fPIC", "-o"]);
    compiler.arg(&library).arg(source);
    let done = compiler.status();
    done.is_ok_and(|it| it.success()).then_some(library)
}

/// The processes of which a process is the parent.
fn children(of: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|it| it.file_name().to_str()?.parse::<u32>().ok());
    let parent = |number: u32| -> Option<u32> {
        let text = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        // The name of the program may have spaces; the state and the parent follow it.
        let mut words = text.rsplit_once(')')?.1.split_whitespace();
        words.nth(1)?.parse().ok()
    };
    numbers.filter(|it| parent(*it) == Some(of)).collect()
}

pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) -> Result<(), Failed> {
    let end = Instant::now() + LONG;
    while !holds() {
        check(Instant::now() < end, || {
            format!("{what}: not within {LONG:?}")
        })?;
        std::thread::park_timeout(Duration::from_millis(5));
    }
    Ok(())
}

/// The number of a running process is still its own, or it has ended.
pub(crate) fn runs(process: u32) -> bool {
    let state = fs::read_to_string(format!("/proc/{process}/stat"));
    let state = state.unwrap_or_default();
    let state = state.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    state.is_some_and(|state| !state.starts_with('Z'))
}

/// Ended with 2 and one sentence that has these words.
fn refused(said: &Output, words: &str) -> Result<(), Failed> {
    let err = String::from_utf8_lossy(&said.stderr);
    let sentences = err.lines().count();
    let right = said.status.code() == Some(2) && err.contains(words) && sentences == 1;
    check(right, || format!("ended with {:?}: {err}", said.status))?;
    check(said.stdout.is_empty(), || "something was printed".into())
}

pub(crate) fn a_library_that_hangs() -> Result<Completion, Failed> {
    let folder = tempfile::tempdir()?;
    let Some(library) = hanging(folder.path()) else {
        return not_run("there is no C compiler");
    };
    let watched = Watched::new()?;
    let mut command = topo(MACHINE, &library);
    watched.lead(&mut command);
    command.args(["--hosts", "2", "--timeout", "1"]);
    let said = command.output()?;
    refused(&said, "error: NCCL did not answer within 1 s, the time-out")?;
    refused(&said, "; its last words: about to hang")?;
    watched.nothing_is_left()?;
    Ok(Completion::Completed)
}

/// Starts a job of two hosts that hangs, and waits for its processes.
fn hang(library: &Path, watched: &Watched) -> Result<(Child, Vec<u32>), Failed> {
    let mut command = topo(MACHINE, library);
    watched.lead(&mut command);
    let parent = command.args(["--hosts", "2"]).spawn()?;
    let mut hosts = Vec::new();
    until("two hosts start", || {
        hosts = children(parent.id());
        hosts.len() == 2
    })?;
    Ok((parent, hosts))
}

pub(crate) fn a_killed_parent() -> Result<Completion, Failed> {
    let folder = tempfile::tempdir()?;
    let Some(library) = hanging(folder.path()) else {
        return not_run("there is no C compiler");
    };
    let watched = Watched::new()?;
    let (mut parent, hosts) = hang(&library, &watched)?;
    parent.kill()?;
    let status = parent.wait()?;
    check(status.signal() == Some(9), || format!("{status}"))?;
    until("the hosts end", || !hosts.iter().any(|it| runs(*it)))?;
    watched.nothing_is_left()?;
    Ok(Completion::Completed)
}

pub(crate) fn a_killed_host() -> Result<Completion, Failed> {
    let folder = tempfile::tempdir()?;
    let Some(library) = hanging(folder.path()) else {
        return not_run("there is no C compiler");
    };
    let watched = Watched::new()?;
    let (parent, hosts) = hang(&library, &watched)?;
    let killed = Command::new("kill")
        .args(["-9", &hosts[1].to_string()])
        .status()?;
    check(killed.success(), || format!("{killed}"))?;
    let said = parent.wait_with_output()?;
    let words = "error: NCCL was killed (signal 9), perhaps because memory ran out, on host ";
    refused(&said, words)?;
    check(!hosts.iter().any(|it| runs(*it)), || {
        "a host is left".into()
    })?;
    watched.nothing_is_left()?;
    Ok(Completion::Completed)
}

/// A limit on the addresses of a process, which NCCL notices when it allocates.
pub(crate) fn too_little_memory() -> Result<Completion, Failed> {
    let Some(library) = library("2.30.7") else {
        return not_fetched("2.30.7");
    };
    let watched = Watched::new()?;
    let command = topo(MACHINE, &library);
    let mut shell = Command::new("bash");
    shell.current_dir(repository());
    watched.lead(&mut shell);
    shell.args(["-c", "ulimit -v 1000000 && exec \"$0\" \"$@\""]);
    shell.arg(command.get_program()).args(command.get_args());
    let said = shell.output()?;
    refused(&said, "memory")?;
    watched.nothing_is_left()?;
    Ok(Completion::Completed)
}
