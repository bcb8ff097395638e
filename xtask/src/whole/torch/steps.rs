//! `cargo xtask torch-steps`: what `topo step` predicts of real steps of training on topo, on hosts
//! whose networks are limited, beside what they took.
//!
//! Hosts are network namespaces with a rank each. `topo run` measures three collectives there;
//! they correct the times that NCCL's model predicts for such hosts (`topo step --measured`).
//! Then models are trained there under PyTorch's profiler, and the traces of all ranks are priced
//! with and without these measurements. Nothing of a trace corrects its own prediction.

mod table;

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use serde_json::Value;
use workload::{Workload, kineto};
use xtask::workspace::{cargo, exit, repository, target};

use super::{MODULES, Package, Python};
use table::{Tables, Times};

/// The exit status of `rehearse-hosts` where something is missing.
const NOT_RUN: i32 = 77;

/// TCP without BBR, which needs seconds to find a rate; connections keep their windows; and
/// acknowledgments do not wait long behind the sender's own data.
const SETTINGS: &str =
    "tcp_congestion_control=reno tcp_slow_start_after_idle=0 tcp_limit_output_bytes=131072";

/// Time whose bytes a host may send at once beyond its rate, µs. Less would be lost when the
/// kernel's timers are late.
const BURST_US: u32 = 320;

/// The collectives that are measured for corrections.
const COLLECTIVES: [&str; 3] = ["all-reduce", "all-gather", "reduce-scatter"];

#[derive(Args)]
pub(crate) struct Arguments {
    /// Hosts with a rank each, run in turn
    #[arg(long, value_delimiter = ',', default_value = "2,3,4")]
    hosts: Vec<u32>,
    /// Mbit/s that each host sends, run in turn
    #[arg(long, value_delimiter = ',', default_value = "250,1000")]
    rates: Vec<u32>,
    /// Steps that are measured in each run
    #[arg(long, default_value_t = 4)]
    steps: u32,
    /// Times that all of it is run
    #[arg(long, default_value_t = 2)]
    rounds: u32,
    /// Profile of cargo of the package and of `topo`
    #[arg(long, default_value = "release")]
    profile: String,
    /// Builds nothing: takes the package and `topo` as they were built last
    #[arg(long)]
    built: bool,
    /// Folder that keeps the traces and measurements
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Runs nothing: prices what --keep kept
    #[arg(long, requires = "keep")]
    kept: bool,
    #[command(flatten)]
    python: Python,
    /// Kinds of training; none: all
    kinds: Vec<Kind>,
}

/// How a model is trained by several ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// DistributedDataParallel
    Ddp,
    /// FSDP2 (`fully_shard`)
    Fsdp,
    /// Tensor parallelism
    Tp,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Ddp => "ddp",
            Self::Fsdp => "fsdp",
            Self::Tp => "tp",
        }
    }
}

/// Hosts with limited networks, and the programs that run on them.
struct Bench<'a> {
    arguments: &'a Arguments,
    python: PathBuf,
    package: Package,
    topo: PathBuf,
}

/// Trains, and compares each run with its prediction.
///
/// # Errors
/// There is no torch, or a run fails.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let bench = Bench {
        arguments,
        python: arguments.python.path(&MODULES[..2])?,
        package: match arguments.built {
            true => Package::built(&arguments.profile)?,
            false => Package::build(&arguments.profile)?,
        },
        topo: program(arguments)?,
    };
    let temporary = tempfile::tempdir()?;
    let place = arguments.keep.as_deref().unwrap_or(temporary.path());
    let kinds = match &arguments.kinds[..] {
        [] => Kind::value_variants(),
        kinds => kinds,
    };
    let mut tables = Tables::default();
    for round in 0..arguments.rounds {
        for (rate, hosts) in pairs(&arguments.rates, &arguments.hosts) {
            let folder = place.join(format!("{rate}-{hosts}-{round}"));
            fs::create_dir_all(&folder)?;
            let folder = folder.canonicalize()?;
            fs::write(folder.join("host.xml"), host(rate))?;
            for collective in COLLECTIVES {
                if !arguments.kept && !bench.measure(rate, hosts, collective, &folder)? {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            for kind in kinds {
                let traces = folder.join(kind.name());
                fs::create_dir_all(&traces)?;
                if !arguments.kept {
                    bench.train(rate, hosts, *kind, &traces)?;
                }
                let times = bench.compare(hosts, &folder, &traces)?;
                tables.add((kind.name(), rate, hosts), arguments.steps, times);
            }
        }
    }
    print!("{tables}");
    Ok(exit(tables.is_good()))
}

fn pairs<'a>(rates: &'a [u32], hosts: &'a [u32]) -> impl Iterator<Item = (u32, u32)> + 'a {
    let each = |rate: &'a u32| hosts.iter().map(move |hosts| (*rate, *hosts));
    rates.iter().flat_map(each)
}

/// Builds `topo`, unless that was done.
fn program(arguments: &Arguments) -> Result<PathBuf> {
    let profile = arguments.profile.as_str();
    let mut build = cargo();
    build.args(["build", "--quiet", "--locked", "-p", "topo"]);
    build.args(["--profile", profile]);
    ensure!(
        arguments.built || build.status()?.success(),
        "topo does not build"
    );
    let folder = if profile == "dev" { "debug" } else { profile };
    Ok(target().canonicalize()?.join(folder).join("topo"))
}

/// A host with one GPU in place of its processor, and a network of this rate, Mbit/s.
fn host(rate: u32) -> String {
    format!(
        r#"<system version="1">
  <cpu numaid="0" affinity="ffffffff" arch="x86_64" vendor="AuthenticAMD" familyid="143" modelid="49">
    <pci busid="0000:21:00.0" class="0x030000" vendor="0x10de" device="0x2230" link_speed="16.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="86" rank="0" gdr="0"/>
    </pci>
    <pci busid="0000:64:00.0" class="0x020000" vendor="0x8086" device="0x1563" link_speed="8.0 GT/s PCIe" link_width="4">
      <nic>
        <net name="eth0" dev="0" latency="0.000000" speed="{rate}" port="0" guid="0x0" maxconn="65536" gdr="0"/>
      </nic>
    </pci>
  </cpu>
</system>
"#
    )
}

impl Bench<'_> {
    /// Times a collective on these hosts with `topo run`, into a file of the folder. Returns
    /// `false` if this machine cannot have such hosts.
    fn measure(&self, rate: u32, hosts: u32, collective: &str, folder: &Path) -> Result<bool> {
        let mut run = Command::new(&self.topo);
        run.args(["run", collective, "--begin", "64K", "--end", "16M"]);
        run.args(["--factor", "4", "--no-in-place", "--check", "0"]);
        run.args(["--warmup", "1", "--time", "300", "--json"]);
        run.env("TOPO_SECRET", "3f9c0a77d1b84e62");
        let Some(said) = self.on_hosts(rate, hosts, &run)? else {
            return Ok(false);
        };
        fs::write(folder.join(format!("{collective}.json")), said.stdout)?;
        Ok(true)
    }

    /// Trains on these hosts; each rank writes its trace to the folder.
    fn train(&self, rate: u32, hosts: u32, kind: Kind, folder: &Path) -> Result<()> {
        let mut script = self.package.command(&self.python, "benches/steps.py");
        script.arg(kind.name()).arg(folder);
        script.arg(self.arguments.steps.to_string());
        script.env("OMP_NUM_THREADS", "1");
        let said = self.on_hosts(rate, hosts, &script)?;
        said.map(|_| ()).context("there are no such hosts any more")
    }

    /// Runs a program on each host. Returns `None` if this machine cannot have such hosts.
    fn on_hosts(&self, rate: u32, hosts: u32, program: &Command) -> Result<Option<Output>> {
        let mut command = Command::new(repository().join("xtask/scripts/rehearse-hosts"));
        command.args(["--name", &format!("st{}", std::process::id() % 100_000)]);
        command.args(["--hosts", &hosts.to_string()]);
        command.args(["--rate", &format!("{rate}mbit")]);
        command.args(["--burst", &format!("{}b", rate * BURST_US / 8)]);
        command.args(["--sysctl", SETTINGS, "--"]);
        command.arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            command.env(name, value.unwrap_or_default());
        }
        let said = command.output().context("rehearse-hosts")?;
        let words = String::from_utf8_lossy(&said.stderr);
        match said.status.code() {
            Some(0) => Ok(Some(said)),
            Some(NOT_RUN) => {
                println!("{}", words.lines().last().unwrap_or("not run"));
                Ok(None)
            }
            _ => bail!(
                "{program:?} on {hosts} hosts failed: {}\n{words}",
                said.status
            ),
        }
    }

    /// What rank 0 took, and what `topo step` predicts of the same traces.
    fn compare(&self, hosts: u32, folder: &Path, traces: &Path) -> Result<Times> {
        let files = (0..hosts).map(|it| traces.join(format!("rank{it}.json")));
        let files: Vec<PathBuf> = files.collect();
        let (mut read, mut names) = (Vec::new(), Vec::new());
        for file in &files {
            let name = file.display().to_string();
            let input = BufReader::new(File::open(file).with_context(|| name.clone())?);
            read.push(kineto::read(&name, input)?);
            names.push(name);
        }
        let (measured, waiting) = exposed(&kineto::workload(&read, &names)?);
        let mut command = Command::new(&self.topo);
        command.arg("step").args(&files);
        command.arg("--cluster").arg(folder.join("host.xml"));
        command.args(["--hosts", &hosts.to_string(), "--json"]);
        let plain = report(&mut command)?;
        let tables = COLLECTIVES.map(|it| folder.join(format!("{it}.json")));
        command.arg("--measured").args(tables);
        let corrected = report(&mut command)?;
        let exposed = |report: &Value| report["exposed_us"].as_f64().context("no exposed_us");
        Ok(Times {
            measured,
            waiting,
            plain: exposed(&plain)?,
            corrected: exposed(&corrected)?,
            calls: table::calls(&plain, &corrected)?,
        })
    }
}

/// What `topo step` says as JSON.
fn report(command: &mut Command) -> Result<Value> {
    let said = command.output().context("topo step")?;
    let words = String::from_utf8_lossy(&said.stderr);
    ensure!(said.status.success(), "topo step failed: {words}");
    Ok(serde_json::from_slice(&said.stdout)?)
}

/// Communication that computation waited for, without and in waiting for later ranks, µs.
fn exposed(workload: &Workload) -> (f64, f64) {
    let (mut measured, mut waiting) = (0.0, 0.0);
    for (call, took) in workload.calls.iter().zip(&workload.measured) {
        let waited = took.waiting_us.unwrap_or(0.0);
        measured += (took.time_us - waited - call.overlap_us).max(0.0);
        waiting += waited;
    }
    (measured, waiting)
}
