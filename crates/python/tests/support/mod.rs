//! The package as it is installed, and ranks as processes of Python.

pub mod answered;

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Longest run of a program.
const LONGEST: Duration = Duration::from_secs(600);

/// The folder of this crate.
pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The Python with torch: the one that the environment names, or the fetched one.
pub fn torch_python() -> Option<PathBuf> {
    let named = std::env::var_os("TOPO_TORCH_PYTHON").map(PathBuf::from);
    named.or_else(|| fetched("torch"))
}

/// The Python with the client of the Model Context Protocol, if it was fetched.
pub fn agents_python() -> Option<PathBuf> {
    fetched("mcp")
}

/// The inspector of that protocol, if it was fetched.
pub fn inspector() -> Option<PathBuf> {
    in_target("inspector/node_modules/.bin/mcp-inspector")
}

/// The Python of a virtual environment that was fetched.
fn fetched(name: &str) -> Option<PathBuf> {
    in_target(&format!("{name}/bin/python"))
}

/// A file that was fetched.
fn in_target(path: &str) -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| here().join("../../target"), PathBuf::from);
    let found = target.join(path);
    found.exists().then_some(found)
}

/// Any Python that can load the module: 3.9 or newer.
pub fn plain_python() -> Option<PathBuf> {
    let python = torch_python().unwrap_or_else(|| PathBuf::from("python3"));
    let test = "import sys; sys.exit(sys.version_info < (3, 9))";
    let status = Command::new(&python).args(["-c", test]).status();
    status.is_ok_and(|it| it.success()).then_some(python)
}

/// A folder with the package and the module that was built beside this test.
pub struct Package(tempfile::TempDir);

impl Package {
    /// Puts it together.
    pub fn make() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|why| why.to_string())?;
        let package = folder.path().join("toporing");
        copy(&here().join("python/toporing"), &package).map_err(|why| why.to_string())?;
        let test = std::env::current_exe().map_err(|why| why.to_string())?;
        let module = test.with_file_name("lib_native.so");
        fs::hard_link(&module, package.join("_native.abi3.so"))
            .or_else(|_| fs::copy(&module, package.join("_native.abi3.so")).map(|_| ()))
            .map_err(|why| format!("{}: {why}", module.display()))?;
        Ok(Self(folder))
    }

    /// A program of `tests/programs` or `examples` that will see the package.
    pub fn command(&self, python: &Path, program: &str) -> Command {
        let mut command = Command::new(python);
        let folder = ["tests/programs", "examples"].map(|it| here().join(it).join(program));
        let file = folder.iter().find(|it| it.exists());
        command
            .args(["-W", "ignore"])
            .arg(file.unwrap_or(&folder[0]));
        command.env("PYTHONPATH", self.0.path());
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("OMP_NUM_THREADS", "1");
        command
    }

    /// Runs a program in a process for each rank, with the variables of torchrun.
    pub fn run_ranks(
        &self,
        python: &Path,
        arguments: &[&str],
        ranks: u32,
        is_killed: bool,
    ) -> Result<(), String> {
        self.run_ranks_prepared(python, arguments, ranks, is_killed, |_| ())
    }

    /// As [`Self::run_ranks`], with a change of each command.
    pub fn run_ranks_prepared(
        &self,
        python: &Path,
        arguments: &[&str],
        ranks: u32,
        is_killed: bool,
        prepare: impl Fn(&mut Command),
    ) -> Result<(), String> {
        let port = free_port().map_err(|why| why.to_string())?;
        let start = |rank: u32| {
            let mut command = self.command(python, arguments[0]);
            command.args(&arguments[1..]);
            command.env("RANK", rank.to_string());
            command.env("LOCAL_RANK", rank.to_string());
            command.env("WORLD_SIZE", ranks.to_string());
            command.env("MASTER_ADDR", "127.0.0.1");
            command.env("MASTER_PORT", port.to_string());
            prepare(&mut command);
            command.spawn_with_output()
        };
        let mut children = Vec::new();
        for rank in 0..ranks {
            children.push(start(rank).map_err(|why| why.to_string())?);
        }
        let until = Instant::now() + LONGEST;
        let mut wrong = String::new();
        for (mut child, rank) in children.into_iter().zip(0..) {
            let (ended, said) = finish(&mut child, until);
            let expected = if is_killed && rank == 1 {
                None
            } else {
                Some(0)
            };
            if ended != Some(expected) {
                wrong += &format!("rank {rank} ended with {ended:?}:\n{said}\n");
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(wrong) }
    }

    /// Runs a program on two hosts, which are network namespaces; the inner error says why that is
    /// not possible here.
    pub fn run_hosts(
        &self,
        python: &Path,
        arguments: &[&str],
    ) -> Result<Result<(), String>, String> {
        let script = here().join("../../xtask/scripts/rehearse-hosts");
        let program = self.command(python, arguments[0]);
        let mut command = Command::new(script);
        let name = format!("py{}", std::process::id() % 10_000);
        command
            .args(["--name", &name, "--hosts", "2", "--"])
            .arg(python);
        command.args(program.get_args()).args(&arguments[1..]);
        for (name, value) in program.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        command.env("GLOO_SOCKET_IFNAME", "eth0");
        let child = command.spawn_with_output();
        let mut child = child.map_err(|why| why.to_string())?;
        let (ended, said) = finish(&mut child, Instant::now() + LONGEST);
        match ended {
            Some(Some(0)) => Ok(Ok(())),
            // What is missing is the last line.
            Some(Some(77)) => Ok(Err(said.trim().trim_start_matches("not run: ").to_owned())),
            _ => Err(format!("{arguments:?} ended with {ended:?}:\n{said}")),
        }
    }

    /// Runs one process; returns what it printed.
    pub fn run(&self, python: &Path, arguments: &[&str]) -> Result<String, String> {
        self.run_prepared(python, arguments, |_| ())
    }

    /// As [`Self::run`], with a change of the command.
    pub fn run_prepared(
        &self,
        python: &Path,
        arguments: &[&str],
        prepare: impl FnOnce(&mut Command),
    ) -> Result<String, String> {
        let mut command = self.command(python, arguments[0]);
        command.args(&arguments[1..]);
        prepare(&mut command);
        let child = command.spawn_with_output();
        let mut child = child.map_err(|why| why.to_string())?;
        let (ended, said) = finish(&mut child, Instant::now() + LONGEST);
        match ended {
            Some(Some(0)) => Ok(said),
            _ => Err(format!("{arguments:?} ended with {ended:?}:\n{said}")),
        }
    }
}

/// Starts a process whose output goes to one pipe.
trait SpawnWithOutput {
    fn spawn_with_output(&mut self) -> std::io::Result<(Child, std::io::PipeReader)>;
}

impl SpawnWithOutput for Command {
    fn spawn_with_output(&mut self) -> std::io::Result<(Child, std::io::PipeReader)> {
        let (reader, writer) = std::io::pipe()?;
        let child = self
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .stdin(Stdio::null())
            .spawn()?;
        // The command keeps the writers until they are replaced.
        self.stdout(Stdio::null()).stderr(Stdio::null());
        Ok((child, reader))
    }
}

/// Waits for a process; kills it when the time is over. Returns its exit code (none: a signal), or
/// nothing if it was killed, and what it printed.
fn finish(
    (child, output): &mut (Child, std::io::PipeReader),
    until: Instant,
) -> (Option<Option<i32>>, String) {
    std::thread::scope(|scope| {
        let reads = scope.spawn(|| {
            let mut said = Vec::new();
            let _ = output.read_to_end(&mut said);
            String::from_utf8_lossy(&said).into_owned()
        });
        let ended = loop {
            match child.try_wait() {
                Ok(Some(status)) => break Some(status.code()),
                Ok(None) if Instant::now() < until => sleep(Duration::from_millis(10)),
                _ => {
                    let _ = child.kill();
                    let _ = child.wait();
                    break None;
                }
            }
        };
        (ended, reads.join().unwrap_or_default())
    })
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type()?.is_dir() {
            if name != "__pycache__" {
                copy(&entry.path(), &to.join(name))?;
            }
        } else if !name.to_string_lossy().ends_with(".so") {
            fs::copy(entry.path(), to.join(name))?;
        }
    }
    Ok(())
}
