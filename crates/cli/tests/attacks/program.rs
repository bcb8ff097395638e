//! Running the program.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::{Completion, Failed};
use tempfile::TempDir;

/// The exit status of every error.
pub(crate) const FAILED: Option<i32> = Some(2);

/// Longer than any process needs, even on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(600);

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// `topo` in the repository's root, on the loopback interface, without the variables of launchers
/// and users. It has 2 GB of address space, so that a read without a bound fails at once.
pub(crate) fn topo() -> Command {
    shell("ulimit -v 2000000; exec \"$0\" \"$@\"")
}

/// A shell that runs a script, in which `"$0" "$@"` is `topo` with its arguments.
pub(crate) fn shell(script: &str) -> Command {
    let mut command = clean(Path::new("sh"));
    command.args(["-c", script, env!("CARGO_BIN_EXE_topo")]);
    command
}

/// A program in the repository's root, on the loopback interface, without the variables of
/// launchers and users.
pub(crate) fn clean(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).stdin(Stdio::null());
    let set = [
        "NCCL_",
        "OMPI_",
        "PMI",
        "SLURM_",
        "TORCHELASTIC_",
        "MASTER_",
        "TOPO_",
        "XDG_",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_",
        "JOB_",
        "COLUMNS",
    ];
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if set.iter().any(|it| text.starts_with(it)) {
            command.env_remove(&name);
        }
    }
    command
        .env("NCCL_SOCKET_IFNAME", "=lo")
        .env("NCCL_SOCKET_FAMILY", "AF_INET")
        .env("NCCL_NET_PLUGIN", "none");
    command
}

/// A process that is killed at the end of the test.
pub(crate) struct Running {
    pub child: Child,
    out: File,
    err: File,
    since: Instant,
}

#[derive(Debug)]
pub(crate) struct Said {
    pub out: String,
    pub err: String,
    /// Exit status; `None` if a signal ended it.
    pub status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    pub took: Duration,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let (out, err) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
        let child = command
            .stdout(out.try_clone().unwrap())
            .stderr(err.try_clone().unwrap())
            .spawn()
            .unwrap();
        Self {
            child,
            out,
            err,
            since: Instant::now(),
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether it ended.
    pub(crate) fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits until it ends; fails the test after `longest`.
    pub(crate) fn within(mut self, longest: Duration) -> Said {
        while !self.is_over() {
            let lasted = self.since.elapsed();
            assert!(lasted < longest, "it did not end within {longest:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        self.end()
    }

    /// Kills it if it still runs, and returns what it printed.
    pub(crate) fn end(mut self) -> Said {
        let took = self.since.elapsed();
        // Fails if it has ended already.
        let _ = self.child.kill();
        let status = self.child.wait().unwrap();
        let read = |file: &mut File| {
            let mut bytes = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        Said {
            out: read(&mut self.out),
            err: read(&mut self.err),
            status: status.code(),
            signal: status.signal(),
            took,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail if it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `topo` with its standard error on a terminal. Returns `None` without the program `script`.
pub(crate) fn on_terminal(line: &str) -> Option<Said> {
    Command::new("script").arg("--version").output().ok()?;
    let mut script = Command::new("script");
    let line = format!("{} {line}", env!("CARGO_BIN_EXE_topo"));
    script.args(["-qec", &line, "/dev/null"]);
    script.current_dir(root()).env("TERM", "xterm");
    Some(Running::start(&mut script).within(LONG))
}

/// Runs `topo` to its end.
pub(crate) fn run<S: AsRef<OsStr>>(arguments: &[S]) -> Said {
    Running::start(topo().args(arguments)).within(LONG)
}

impl Said {
    /// Returns whether it ended by itself, with a reason if it failed or does not know: no signal,
    /// no panic.
    pub(crate) fn is_orderly(&self) -> bool {
        let told = |code| match code {
            2 => self.err.contains("error:"),
            3 => self.err.contains("UNKNOWN:"),
            _ => true,
        };
        // A peer whose process disappears was killed by a signal.
        let words = ["panicked", "its process ended", "with signal"];
        let status = self.status;
        self.signal.is_none()
            && status.is_some_and(|code| (0..=3).contains(&code) && told(code))
            && words.iter().all(|word| !self.err.contains(word))
    }

    /// Checks that it failed with an error that has these words.
    #[track_caller]
    pub(crate) fn refused(&self, words: &[&str]) {
        let says = self.err.contains("error: ") && words.iter().all(|it| self.err.contains(it));
        assert!(
            self.status == FAILED && says,
            "expected {words:?}: {self:?}"
        );
    }
}

/// A folder in memory, where there is one: it holds many small files.
pub(crate) fn memory_folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let folder = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    folder.unwrap()
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A test that was not run.
pub(crate) fn not_run(why: &str) -> Result<Completion, Failed> {
    Ok(Completion::ignored_with(format!("not run: {why}")))
}
