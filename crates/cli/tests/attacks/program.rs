//! The program as these tests run it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The status of everything that went wrong.
pub const FAILED: Option<i32> = Some(2);

/// Nothing that is right takes so long, on a busy machine either.
pub const LONG: Duration = Duration::from_secs(120);

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// `topo` in the project's root, on the loopback interface, with nothing in the environment that a launcher or a user may
/// have set. It has 2 GB of address space, so that a read without a bound fails at once.
pub fn topo() -> Command {
    shell("ulimit -v 2000000; exec \"$0\" \"$@\"")
}

/// A shell that runs a script; `"$0" "$@"` in it is `topo` with its arguments.
pub fn shell(script: &str) -> Command {
    let mut command = clean(Path::new("sh"));
    command.args(["-c", script, env!("CARGO_BIN_EXE_topo")]);
    command
}

/// A program in the project's root, on the loopback interface, with nothing in the environment that a launcher or a user
/// may have set.
pub fn clean(program: &Path) -> Command {
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

/// A process that ends with the test.
pub struct Running {
    pub child: Child,
    out: File,
    err: File,
    since: Instant,
}

#[derive(Debug)]
pub struct Said {
    pub out: String,
    pub err: String,
    /// None if a signal ended it.
    pub status: Option<i32>,
    pub took: Duration,
}

impl Running {
    pub fn start(command: &mut Command) -> Self {
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

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it ended.
    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for its end; one that takes longer fails the test.
    pub fn within(mut self, longest: Duration) -> Said {
        while !self.is_over() {
            let lasted = self.since.elapsed();
            assert!(lasted < longest, "it did not end within {longest:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        self.end()
    }

    /// What it said; it is killed if it has not ended.
    pub fn end(mut self) -> Said {
        let took = self.since.elapsed();
        // One that has ended already needs no end.
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
            took,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already needs neither.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `topo`, which must end.
pub fn run<S: AsRef<OsStr>>(arguments: &[S]) -> Said {
    Running::start(topo().args(arguments)).within(LONG)
}

impl Said {
    /// Whether it ended by itself and says what happened: no signal, no panic.
    pub fn is_orderly(&self) -> bool {
        let told = |code| code != 2 || self.err.contains("error:");
        // A peer whose process is gone without a word was killed by a signal.
        let words = ["panicked", "its process ended", "with signal"];
        let status = self.status;
        status.is_some_and(|code| (0..=2).contains(&code) && told(code))
            && words.iter().all(|word| !self.err.contains(word))
    }

    /// It ended with an error that has these words in it.
    #[track_caller]
    pub fn refused(&self, words: &[&str]) {
        let says = self.err.contains("error: ") && words.iter().all(|it| self.err.contains(it));
        assert!(
            self.status == FAILED && says,
            "expected {words:?}: {self:?}"
        );
    }
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Says that a test, or a part of it, was not run. `cargo test` shows it, for it does not go through `print`.
pub fn not_run(name: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "not run: {name}: {why}");
}
