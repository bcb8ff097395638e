//! `topo diagnose --collect`: what `topo diagnose` needs of this host, in one archive.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bench::child_process::{ProgramEnd, RunningProgram, end_all};
use diagnose::pack::{CollectedFile, pack};
use diagnose::redaction::Redaction;

use crate::arguments::diagnose::CollectArguments;
use crate::arguments::machine::{SelectionArguments, SourceArguments};
use crate::environment::Environment;
use crate::live;
use crate::output::Output;
use crate::progress::Progress;

/// How long programs may take, which run at once: a driver that hangs stops several of them.
const DEADLINE: Duration = Duration::from_secs(10);

/// Most bytes of a file and of all together, and most files of a folder.
const MOST_BYTES: u64 = 256 << 20;
const MOST_TOTAL: u64 = 1 << 30;
const MOST_FILES: usize = 1 << 12;

/// Programs whose output is collected, and the names of the files.
const PROGRAMS: [(&str, &[&str], &str); 12] = [
    ("nvidia-smi", &["topo", "-m"], "nvidia-smi-topo.txt"),
    ("nvidia-smi", &["topo", "-p2p", "r"], "nvidia-smi-p2p.txt"),
    ("nvidia-smi", &["nvlink", "-s"], "nvidia-smi-nvlink.txt"),
    ("nvidia-smi", &["-q"], "nvidia-smi.txt"),
    ("lspci", &["-vv"], "lspci.txt"),
    ("lscpu", &[], "lscpu.txt"),
    ("numactl", &["-H"], "numactl.txt"),
    ("ibstat", &[], "ibstat.txt"),
    ("ibv_devinfo", &["-v"], "ibv_devinfo.txt"),
    ("rdma", &["link"], "rdma.txt"),
    ("ncclras", &["-v"], "ncclras.txt"),
    ("dmesg", &["-T"], KERNEL),
];

/// The kernel's lines: only those with one of these words are collected.
const KERNEL: &str = "dmesg.txt";
const KERNEL_WORDS: [&str; 10] = [
    "NVRM",
    "Xid",
    "AER",
    "mlx5",
    "DMAR",
    "IOMMU",
    "AMD-Vi",
    "Out of memory",
    "oom-kill",
    "nvidia",
];

/// Largest `/etc/hosts` that is read, bytes.
const MOST_OF_HOSTS: u64 = 1 << 20;

/// How the names of flight recorders begin where PyTorch's variables do not say it.
const RECORDERS: [&str; 2] = ["/tmp/nccl_trace_rank_", "/tmp/comm_lib_trace_rank_"];

pub(crate) fn run(
    arguments: &CollectArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<()> {
    let progress = Progress::new(environment, "collecting");
    let host = net::Host::this(None).name;
    let mut collection = Collection {
        files: Vec::new(),
        missing: Vec::new(),
        left: MOST_TOTAL,
    };
    for file in &arguments.files {
        if file.is_dir() {
            let mut files = regular_files(file, "");
            files.sort();
            for file in files {
                collection.file(&file);
            }
        } else {
            // What is named is there, or the command line is wrong.
            let bytes = files::read(file, MOST_BYTES);
            let bytes = bytes.with_context(|| format!("cannot read {}", file.display()))?;
            collection.add(&name_of(file), bytes);
        }
    }
    let variables = environment.nccl.iter().chain(&environment.torch);
    let variables: String = variables
        .map(|(name, value)| format!("{name}={value}\n"))
        .collect();
    collection.add("environment.txt", variables.into_bytes());
    for place in places(environment) {
        for file in place.files() {
            collection.file(&file);
        }
    }
    progress.set("asking programs and the driver".to_owned());
    let moment = Instant::now() + DEADLINE;
    let programs = collection.start_programs();
    match live::probe(
        &SourceArguments::default(),
        &SelectionArguments::default(),
        environment,
    ) {
        Ok(probe) => {
            let text = topology::xml::write(&probe.document);
            collection.add("topology.xml", text.into_bytes());
            if let Some(why) = probe.answers.driver.failure() {
                let missing = format!("GPUs of topology.xml: {why}");
                collection.missing.push(missing);
            }
        }
        Err(why) => collection.missing.push(format!("topology.xml: {why:#}")),
    }
    collection.programs(programs, moment);
    let redaction = arguments.redact.as_deref();
    let redaction = redaction.map(|word| known(word, &host, environment, &collection.files));
    if let Some(redaction) = &redaction {
        redaction.check().map_err(anyhow::Error::msg)?;
    }
    let label = redaction.as_ref().map_or(host.clone(), |it| it.name(&host));
    let path = arguments.output.clone();
    let path = path.unwrap_or_else(|| PathBuf::from(format!("topo-{label}.tar.gz")));
    let packed = pack(&label, &collection.files, redaction.as_ref());
    let (packed, left_out) = packed.context("cannot pack the files")?;
    for name in left_out {
        let why = format!(
            "{name}: it is no text, so it cannot be redacted; unpack an archive, and name its files"
        );
        collection.files.retain(|it| it.name != name);
        collection.missing.push(why);
    }
    files::write(&path, &packed).with_context(|| format!("cannot write {}", path.display()))?;
    output.text = page(&path, packed.len(), &collection);
    Ok(())
}

fn page(path: &Path, bytes: usize, collection: &Collection) -> String {
    let (path, kilobytes) = (path.display(), bytes.div_ceil(1000));
    let mut text = format!("{path}: {} files, {kilobytes} kB\n", collection.files.len());
    for file in &collection.files {
        text.push_str(&format!("  {}\n", file.name));
    }
    if !collection.missing.is_empty() {
        text.push_str("not there\n");
    }
    for line in &collection.missing {
        text.push_str(&format!("  {line}\n"));
    }
    text
}

/// The files so far, what is missing and why, and the bytes for which there is room.
struct Collection {
    files: Vec<CollectedFile>,
    missing: Vec<String>,
    left: u64,
}

impl Collection {
    /// Adds a file; a second one of a name gets a number.
    fn add(&mut self, name: &str, bytes: Vec<u8>) {
        let number = (2..).map(|number| format!("{number}-{name}"));
        let mut names = std::iter::once(name.to_owned()).chain(number);
        let is_new = |name: &String| !self.files.iter().any(|it| it.name == *name);
        let name = names.find(is_new).unwrap_or_default();
        match self.left.checked_sub(bytes.len() as u64) {
            Some(left) => {
                self.left = left;
                self.files.push(CollectedFile { name, bytes });
            }
            None => {
                let most = MOST_TOTAL >> 20;
                let why = format!("{name}: an archive has at most {most} MiB");
                self.missing.push(why);
            }
        }
    }

    /// Adds a file that was found.
    fn file(&mut self, path: &Path) {
        match files::read(path, MOST_BYTES) {
            Ok(bytes) => self.add(&name_of(path), bytes),
            Err(why) => self.missing.push(format!("{}: {why}", path.display())),
        }
    }

    /// Starts the programs that there are.
    fn start_programs(&mut self) -> StartedPrograms {
        let mut started = StartedPrograms::default();
        for (program, arguments, name) in PROGRAMS {
            let mut command = Command::new(program);
            command.args(arguments);
            match RunningProgram::leader(command) {
                Ok(running) => {
                    started.names.push((program, name));
                    started.running.push(running);
                }
                Err(why) => self.lacks(name, program, &why.root_cause()),
            }
        }
        started
    }

    /// Adds what programs print until a moment. Those that still run are ended.
    fn programs(&mut self, started: StartedPrograms, moment: Instant) {
        let ends = end_all(started.running, moment);
        for ((program, name), end) in started.names.into_iter().zip(ends) {
            let out = match end {
                ProgramEnd::InTime(ended) => {
                    if ended.out.trim().is_empty() {
                        self.lacks(name, program, &ended.last_words());
                    }
                    ended.out
                }
                ProgramEnd::Killed(out) => {
                    let part = if out.trim().is_empty() {
                        ""
                    } else {
                        "; a part is there"
                    };
                    let why = format!("it did not end within {} s{part}", DEADLINE.as_secs());
                    self.lacks(name, program, &why);
                    out
                }
            };
            if !out.trim().is_empty() {
                let text = if name == KERNEL {
                    kernel_lines(&out)
                } else {
                    out
                };
                self.add(name, text.into_bytes());
            }
        }
    }

    fn lacks(&mut self, name: &str, program: &str, why: &dyn Display) {
        self.missing.push(format!("{name}: {program}: {why}"));
    }
}

/// The names that this host, its environment and the files tell.
fn known(word: &str, host: &str, environment: &Environment, files: &[CollectedFile]) -> Redaction {
    let mut redaction = Redaction::new(word);
    redaction.add(host);
    for user in ["USER", "LOGNAME"]
        .iter()
        .filter_map(|it| environment.launcher.get(*it))
    {
        redaction.add_user(user);
    }
    for name in [
        "HOSTNAME",
        "MASTER_ADDR",
        "SLURM_JOB_NODELIST",
        "SLURM_NODELIST",
        "SLURM_STEP_NODELIST",
        "SLURMD_NODENAME",
        "SLURM_SUBMIT_HOST",
        "NCCL_COMM_ID",
    ] {
        let value = environment.launcher.get(name);
        redaction.add_of(&format!("nodelist={}", value.map_or("", String::as_str)));
    }
    if let Ok(text) = files::read_text(Path::new("/etc/hosts"), MOST_OF_HOSTS) {
        redaction.add_of(&text);
    }
    // A name is known by any file, and hidden in all.
    for file in files {
        redaction.add_of_file(&file.bytes);
    }
    redaction
}

/// Programs that run at once.
#[derive(Default)]
struct StartedPrograms {
    /// The program and the file of each.
    names: Vec<(&'static str, &'static str)>,
    running: Vec<RunningProgram>,
}

/// Lines of the kernel about GPUs, links and memory.
fn kernel_lines(text: &str) -> String {
    let is_of_interest = |line: &&str| KERNEL_WORDS.iter().any(|word| line.contains(word));
    let lines = text.lines().filter(is_of_interest);
    lines.map(|line| format!("{line}\n")).collect()
}

/// Files by the begin of their names.
struct Place {
    folder: PathBuf,
    begin: String,
    /// What follows is a number.
    is_numbered: bool,
}

impl Place {
    fn of(path: &str, is_numbered: bool) -> Option<Self> {
        let (folder, begin) = path.rsplit_once('/').unwrap_or((".", path));
        (!begin.is_empty()).then(|| Self {
            folder: PathBuf::from(if folder.is_empty() { "/" } else { folder }),
            begin: begin.to_owned(),
            is_numbered,
        })
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files = regular_files(&self.folder, &self.begin);
        files.retain(|file| {
            let name = name_of(file);
            let rest = name.strip_prefix(&self.begin).unwrap_or_default();
            !self.is_numbered || !rest.is_empty() && rest.bytes().all(|it| it.is_ascii_digit())
        });
        files.sort();
        files
    }
}

/// Where logs, recorders and settings of NCCL and PyTorch are.
fn places(environment: &Environment) -> Vec<Place> {
    let value = |name: &str| {
        let mut all = environment.nccl.iter().chain(&environment.torch);
        all.find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    };
    let mut places: Vec<Option<Place>> = Vec::new();
    let named = ["TORCH_NCCL_DEBUG_INFO_TEMP_FILE", "TORCH_FR_DUMP_TEMP_FILE"];
    let named = named.into_iter().filter_map(value);
    places.extend(named.chain(RECORDERS).map(|it| Place::of(it, true)));
    // `%h` becomes the host's name, `%p` the process's number.
    let log = value("NCCL_DEBUG_FILE").and_then(|it| it.split('%').next());
    places.extend(log.map(|it| Place::of(it, false)));
    let settings = value("NCCL_CONF_FILE").unwrap_or("/etc/nccl.conf");
    places.push(Place::of(settings, false));
    places.into_iter().flatten().collect()
}

/// Files of a folder, without links, that begin so.
fn regular_files(folder: &Path, begin: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let files = entries.filter_map(|it| {
        let entry = it.ok()?;
        let is_file = entry.file_type().ok()?.is_file();
        let begins = entry.file_name().to_string_lossy().starts_with(begin);
        (is_file && begins).then(|| entry.path())
    });
    files.take(MOST_FILES).collect()
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
