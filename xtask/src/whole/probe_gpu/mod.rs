//! `cargo xtask probe-gpu`: compares all output of `topo probe` with NVIDIA's own programs on a
//! machine with GPUs. Needs only the built programs, no compiler and no network: copy `xtask` and
//! `topo` there, side by side.
//!
//! A comparison with a missing program is reported as not run.

mod documents;
mod matrices;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

/// Makes NCCL write its topology: one communicator of all GPUs in one process.
const COLLECTIVE: &str = "\
import torch
gpus = range(torch.cuda.device_count())
print('NCCL', '.'.join(map(str, torch.cuda.nccl.version())), 'on', len(gpus), 'GPUs')
tensors = [torch.ones(1024, device=f'cuda:{gpu}') for gpu in gpus]
torch.cuda.nccl.all_reduce(tensors)
torch.cuda.synchronize()
assert all(float(tensor[0]) == len(gpus) for tensor in tensors)
";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The topo program; the one beside this program if not given
    #[arg(long)]
    topo: Option<PathBuf>,
    /// A Python with PyTorch, which contains NCCL
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Folder for the files, new or empty
    #[arg(short, long)]
    output: PathBuf,
}

/// The result of a step.
enum Step {
    /// Both agree.
    Same(String),
    /// The differences, one line each.
    Differs(Vec<String>),
    /// Why it was not run.
    NotRun(String),
}

/// The function of a step.
type Run = fn(&Bench) -> Result<Step>;

/// Runs all steps.
///
/// # Errors
/// The folder cannot be made, or is not empty.
pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let topo = match &arguments.topo {
        Some(path) => path.clone(),
        None => std::env::current_exe()?.with_file_name("topo"),
    };
    let folder = &arguments.output;
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let empty = fs::read_dir(folder)?.next().is_none();
    ensure!(empty, "{} is not empty", folder.display());
    let bench = Bench {
        topo,
        python: arguments.python.clone(),
        folder: folder.clone(),
    };
    let steps: [(&str, Run); 5] = [
        ("a topology, and what looks wrong", Bench::probe),
        ("a recording gives the same bytes", Bench::record),
        ("the recording is a machine to plan", Bench::plan),
        ("topo show --matrix and nvidia-smi topo -m", Bench::matrix),
        ("topo probe and NCCL's own dump", Bench::dump),
    ];
    let mut differs = false;
    for (name, step) in steps {
        // A failed step does not stop the others.
        let ended = step(&bench).unwrap_or_else(|error| Step::Differs(vec![format!("{error:#}")]));
        match ended {
            Step::Same(said) => println!("same     {name}: {said}"),
            Step::NotRun(why) => println!("not run  {name}: {why}"),
            Step::Differs(lines) => {
                differs = true;
                println!("DIFFERS  {name}:");
                lines.iter().for_each(|line| println!("    {line}"));
            }
        }
    }
    println!("all files are in {}", folder.display());
    Ok(ExitCode::from(u8::from(differs)))
}

/// The input of the steps.
struct Bench {
    topo: PathBuf,
    python: PathBuf,
    folder: PathBuf,
}

impl Bench {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn save(&self, name: &str, text: &str) -> Result<()> {
        let path = self.path(name);
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// Output and remarks of `topo`. It must succeed.
    fn topo(&self, arguments: &[&str]) -> Result<(String, String)> {
        // Wide enough for every matrix.
        let output = Command::new(&self.topo)
            .args(arguments)
            .env("COLUMNS", "1000")
            .output()
            .with_context(|| format!("starting {}", self.topo.display()))?;
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        ensure!(
            output.status.success(),
            "topo {} ended with {}: {err}",
            arguments.join(" "),
            output.status
        );
        Ok((out, err))
    }

    fn probe(&self) -> Result<Step> {
        let (topology, findings) = self.topo(&["probe"])?;
        let gpus = topology.matches("<gpu ").count();
        let nets = topology.matches("<net ").count();
        self.save("topology.xml", &topology)?;
        self.save("findings.txt", &findings)?;
        self.save(
            "machine.json",
            &self.topo(&["probe", "--format", "json"])?.0,
        )?;
        let first = findings.lines().find(|line| !line.trim().is_empty());
        let first = first.unwrap_or_default().trim();
        if gpus == 0 {
            return Ok(Step::Differs(vec![
                "no GPU was found; findings.txt says why".to_owned(),
            ]));
        }
        let found = findings.lines().filter(|line| line.starts_with("  T"));
        let rules = found.count();
        let said = if rules == 0 {
            first.to_owned()
        } else {
            format!("{rules} lines in findings.txt")
        };
        Ok(Step::Same(format!(
            "{gpus} GPUs, {nets} network devices; {said}"
        )))
    }

    fn record(&self) -> Result<Step> {
        let recording = self.path("recording").display().to_string();
        let recorded = self.topo(&["probe", "--record", &recording])?;
        let replayed = self.topo(&["probe", "--from", &recording])?;
        self.save("recorded.xml", &recorded.0)?;
        if recorded == replayed {
            return Ok(Step::Same("topology and findings".to_owned()));
        }
        self.save("replayed.xml", &replayed.0)?;
        Ok(Step::Differs(vec![
            "recorded.xml and replayed.xml, or their findings".to_owned(),
        ]))
    }

    fn plan(&self) -> Result<Step> {
        let recording = self.path("recording").display().to_string();
        let (page, _) = self.topo(&["plan", &recording])?;
        self.save("plan.txt", &page)?;
        Ok(Step::Same("plan.txt".to_owned()))
    }

    fn matrix(&self) -> Result<Step> {
        let ours = self.topo(&["show", "--matrix", "--format", "json"])?.0;
        self.save("matrix.txt", &self.topo(&["show", "--matrix"])?.0)?;
        self.save("matrix.json", &ours)?;
        let theirs = match program(Command::new("nvidia-smi").args(["topo", "-m"])) {
            Ok(text) => text,
            Err(why) => return Ok(Step::NotRun(why)),
        };
        self.save("nvidia-smi-topo.txt", &theirs)?;
        let theirs = matrices::of_nvidia_smi(&theirs)?;
        let ours = matrices::of_topo(&ours)?;
        let has_rdma = |name: &str| Path::new("/sys/class/infiniband").join(name).exists();
        let (compared, different) = matrices::compare(&ours, &theirs, has_rdma);
        Ok(if different.is_empty() {
            Step::Same(format!("{compared} cells"))
        } else {
            Step::Differs(different)
        })
    }

    fn dump(&self) -> Result<Step> {
        let dump = self.path("nccl-dump.xml");
        let run = |interface: Option<&str>| {
            let mut command = Command::new(&self.python);
            command
                .args(["-c", COLLECTIVE])
                .env("NCCL_TOPO_DUMP_FILE", &dump)
                .env_remove("NCCL_TOPO_FILE")
                .env("NCCL_DEBUG", "WARN");
            if let Some(interface) = interface {
                command.env("NCCL_SOCKET_IFNAME", interface);
            }
            program(&mut command)
        };
        // A machine without a network: NCCL needs some interface to begin with.
        let mut said = run(None);
        let mut only_loopback = false;
        if said.is_err() {
            only_loopback = true;
            said = said.or_else(|first| run(Some("lo")).map_err(|_| first));
        }
        let said = match said {
            Ok(said) => said,
            Err(why) => return Ok(Step::NotRun(why)),
        };
        let mut ours = Command::new(&self.topo);
        ours.arg("probe");
        if only_loopback {
            ours.env("NCCL_SOCKET_IFNAME", "lo");
        }
        let ours = program(&mut ours).map_err(anyhow::Error::msg)?;
        let theirs = fs::read(&dump).with_context(|| format!("reading {}", dump.display()))?;
        let ours = topology::xml::parse("topo probe", ours.as_bytes())?;
        let theirs = topology::xml::parse("NCCL's dump", &theirs)?;
        let different = documents::compare(&ours, &theirs);
        let version = said
            .lines()
            .find(|line| line.starts_with("NCCL "))
            .unwrap_or_default();
        Ok(if different.is_empty() {
            Step::Same(format!("{version}, but for what docs/probing.md says"))
        } else {
            Step::Differs(different)
        })
    }
}

/// The output of a program, or why there is none.
fn program(command: &mut Command) -> Result<String, String> {
    let name = Path::new(command.get_program()).display().to_string();
    let output = command
        .output()
        .map_err(|error| format!("{name}: {error}"))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        let last = error.lines().rfind(|line| !line.trim().is_empty());
        let last = last.unwrap_or_default();
        return Err(format!("{name} ended with {}: {last}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
