//! Installs the peers: Open MPI 4 from Debian; Open MPI 5 and MPICH 5 as Python wheels, each in its
//! own folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use xtask::workspace::{repository, target};

/// An MPI library with our program built against it.
pub(super) struct Peer {
    pub name: &'static str,
    /// The program that starts ranks.
    starter: PathBuf,
    options: Options,
    program: PathBuf,
}

/// Options of the program that starts ranks.
#[derive(Clone, Copy)]
struct Options {
    /// If each rank has a core. Ranks are bound, as ours are.
    bound: &'static [&'static str],
    /// If there are more ranks than cores.
    shared: &'static [&'static str],
    /// If ranks act as several hosts: TCP between all ranks.
    over_tcp: &'static [&'static str],
    /// The variables that do the same.
    over_tcp_variables: &'static [(&'static str, &'static str)],
}

/// Open MPI without shared memory.
const OPEN_MPI_OVER_TCP: &[&str] = &["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"];

/// MPICH without shared memory, over UCX or libfabric. UCX would share memory by itself.
const MPICH_OVER_TCP: &[(&str, &str)] = &[
    ("MPIR_CVAR_NOLOCAL", "1"),
    ("UCX_TLS", "tcp,self"),
    ("FI_PROVIDER", "tcp"),
];

impl Peer {
    /// A command that starts the program on `ranks` ranks. They use only TCP if they act as several
    /// `hosts`. Its own arguments follow.
    pub(super) fn command(&self, ranks: u32, hosts: u32) -> Command {
        let mut command = Command::new(&self.starter);
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        command.args(if ranks as usize <= cores {
            self.options.bound
        } else {
            self.options.shared
        });
        if hosts > 1 {
            command.args(self.options.over_tcp);
            command.envs(self.options.over_tcp_variables.iter().copied());
        }
        command.args(["-n", &ranks.to_string()]);
        command.arg(&self.program);
        // Open MPI refuses to run as root otherwise.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
        command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command
    }
}

/// Each peer with its Python package, if it is one, and the options of its starter.
const PEERS: [(&str, Option<&str>, Options); 3] = [
    (
        "openmpi-4",
        None,
        Options {
            bound: &["--bind-to", "core"],
            shared: &["--oversubscribe", "--bind-to", "none"],
            over_tcp: OPEN_MPI_OVER_TCP,
            over_tcp_variables: &[],
        },
    ),
    (
        "openmpi-5",
        Some("openmpi"),
        Options {
            bound: &["--bind-to", "core"],
            shared: &["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"],
            over_tcp: OPEN_MPI_OVER_TCP,
            over_tcp_variables: &[],
        },
    ),
    (
        "mpich-5",
        Some("mpich"),
        Options {
            bound: &["-bind-to", "core"],
            shared: &[],
            over_tcp: &[],
            over_tcp_variables: MPICH_OVER_TCP,
        },
    ),
];

/// All peers that can be installed. Prints why one cannot.
pub(super) fn all(only: &[String]) -> Result<Vec<Peer>> {
    let folder = target().join("peers");
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let mut peers = Vec::new();
    for (name, package, options) in PEERS {
        if !only.is_empty() && !only.iter().any(|wanted| wanted == name) {
            continue;
        }
        let tools = match package {
            Some(package) => python_package(&folder, package),
            None => debian(),
        };
        let made = tools.and_then(|(compiler, starter)| {
            let program = compile(&folder, name, &compiler)?;
            Ok(Peer {
                name,
                starter,
                options,
                program,
            })
        });
        match made {
            Ok(peer) => peers.push(peer),
            Err(error) => println!("{name}: not run: {error:#}"),
        }
    }
    Ok(peers)
}

/// The compiler and the starter of Open MPI 4, which are installed if they are missing.
fn debian() -> Result<(PathBuf, PathBuf)> {
    let compiler = PathBuf::from("mpicc.openmpi");
    if !answers(&compiler) {
        let install = ["install", "-y", "--no-install-recommends"];
        let packages = ["openmpi-bin", "libopenmpi-dev"];
        step(Command::new("apt-get").args(install).args(packages)).context(
            "Debian's packages openmpi-bin and libopenmpi-dev need root to be installed",
        )?;
    }
    Ok((compiler, "mpirun.openmpi".into()))
}

/// The compiler and the starter of a Python package, which is installed if it is missing.
fn python_package(folder: &Path, name: &str) -> Result<(PathBuf, PathBuf)> {
    let place = folder.join(name);
    let binary = |tool: &str| place.join("bin").join(tool);
    if !binary("mpicc").is_file() {
        step(Command::new("python3").args(["-m", "venv"]).arg(&place))
            .context("a virtual environment of Python")?;
        let package = format!("{name}==5.*");
        step(Command::new(binary("pip")).args(["install", "-q", &package]))?;
    }
    Ok((binary("mpicc"), binary("mpiexec")))
}

fn compile(folder: &Path, name: &str, compiler: &Path) -> Result<PathBuf> {
    let program = folder.join(format!("collectives-{name}"));
    let source = repository().join("xtask/scripts/collectives.c");
    let mut command = Command::new(compiler);
    step(command.args(["-O2", "-o"]).arg(&program).arg(source))?;
    Ok(program)
}

fn answers(program: &Path) -> bool {
    let mut command = Command::new(program);
    command.arg("--version");
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn step(command: &mut Command) -> Result<()> {
    let line = format!("{command:?}");
    let status = command.stdout(Stdio::null()).status();
    let status = status.with_context(|| line.clone())?;
    ensure!(status.success(), "{line} ended with {status}");
    Ok(())
}
