//! The only place where the environment, the terminal and the number of cores are asked.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;

use planner::Settings;

use answers::Machine;
use answers::job_options::Variables;

/// Columns without a terminal and without COLUMNS.
const DEFAULT_WIDTH: usize = 120;

/// Least width of a page.
const LEAST_WIDTH: usize = 60;

/// Variables that launchers set, by how they begin.
const LAUNCHER_PREFIXES: [&str; 8] = [
    "OMPI_COMM_WORLD_",
    "PMIX_",
    "PMI_",
    "MPI_LOCAL",
    "SLURM_",
    "TORCHELASTIC_",
    "MASTER_",
    "TOPO_",
];

/// PyTorch's variables for its collectives, by how they begin.
const TORCH_PREFIXES: [&str; 3] = ["TORCH_NCCL_", "TORCH_DISTRIBUTED_", "TORCH_FR_"];

/// Variables that tell a process its rank.
const RANK_NAMES: [&str; 4] = [
    "OMPI_COMM_WORLD_RANK",
    "PMI_RANK",
    "PMIX_RANK",
    "SLURM_PROCID",
];

/// Other variables of launchers, NCCL's for meeting, folders for that, and the user's name.
const LAUNCHER_NAMES: [&str; 12] = [
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "JOB_COMPLETION_INDEX",
    "HOSTNAME",
    "NCCL_COMM_ID",
    "NCCL_HOSTID",
    "XDG_RUNTIME_DIR",
    "TMPDIR",
    "USER",
    "LOGNAME",
];

/// The environment and the terminal.
#[derive(Debug, Clone)]
pub(crate) struct Environment {
    /// Variables that begin with `NCCL_`, by name.
    pub nccl: Vec<(String, String)>,
    /// PyTorch's variables for its collectives, by name.
    pub torch: Vec<(String, String)>,
    /// Variables of launchers, and those that say where ranks meet.
    pub launcher: BTreeMap<String, String>,
    /// `CUDA_VISIBLE_DEVICES`.
    pub visible_devices: Option<String>,
    /// `CUDA_LAUNCH_BLOCKING` is set and not 0.
    pub blocking_launches: bool,
    /// `LD_LIBRARY_PATH`: folders of the loader, before its own.
    pub library_path: Option<OsString>,
    /// The folder for what can be fetched again: `topo` in `XDG_CACHE_HOME` or `~/.cache`.
    pub cache: Option<PathBuf>,
    /// Standard output may be colored.
    pub color: bool,
    /// Standard error is a terminal, on which progress can be shown.
    pub progress: bool,
    pub width: usize,
}

/// Whether output may be colored, which goes to a terminal or not.
pub(crate) fn has_colors(terminal: bool) -> bool {
    let text = |name| std::env::var(name).unwrap_or_default();
    terminal && text("NO_COLOR").is_empty() && text("TERM") != "dumb"
}

impl Environment {
    /// The value of one of NCCL's variables; the command line overrides the environment.
    pub(crate) fn nccl_value(&self, variables: &Variables, name: &str) -> Option<String> {
        let mut all = self.nccl.iter().chain(&variables.set);
        all.rfind(|(it, _)| it == name)
            .map(|(_, value)| value.clone())
    }

    /// Asks the process's environment and its standard output.
    pub(crate) fn read() -> Self {
        let text = |name| std::env::var(name).unwrap_or_default();
        let all = std::env::vars_os().filter_map(|(name, value)| {
            Some((
                name.into_string().ok()?,
                value.to_string_lossy().into_owned(),
            ))
        });
        let all: BTreeMap<String, String> = all.collect();
        let of_launcher = |name: &String| {
            LAUNCHER_NAMES.contains(&name.as_str())
                || LAUNCHER_PREFIXES.iter().any(|it| name.starts_with(it))
        };
        let mut launcher = all.clone();
        launcher.retain(|name, _| of_launcher(name));
        let begins = |prefixes: &[&str]| {
            let begins = |name: &str| prefixes.iter().any(|it| name.starts_with(it));
            let found = all.iter().filter(|(name, _)| begins(name));
            let found = found.map(|(name, value)| (name.clone(), value.clone()));
            found.collect::<Vec<_>>()
        };
        let nccl = begins(&["NCCL_"]);
        let torch = begins(&TORCH_PREFIXES);
        // Launchers may give their ranks a pseudo-terminal and write its output to a log.
        let launched = RANK_NAMES.iter().any(|name| launcher.contains_key(*name));
        let terminal = std::io::stdout().is_terminal() && !launched;
        let columns = terminal.then(terminal_size::terminal_size).flatten();
        let columns = columns.map(|(width, _)| usize::from(width.0));
        let columns = columns.or_else(|| text("COLUMNS").parse().ok());
        let folder =
            |name| Some(PathBuf::from(std::env::var_os(name)?)).filter(|it| it.is_absolute());
        let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
        Self {
            cache: cache.map(|it| it.join("topo")),
            nccl,
            torch,
            launcher,
            visible_devices: std::env::var("CUDA_VISIBLE_DEVICES").ok(),
            library_path: std::env::var_os("LD_LIBRARY_PATH"),
            blocking_launches: !matches!(text("CUDA_LAUNCH_BLOCKING").as_str(), "" | "0"),
            color: has_colors(terminal),
            progress: std::io::stderr().is_terminal() && !launched && text("TERM") != "dumb",
            width: columns.unwrap_or(DEFAULT_WIDTH).max(LEAST_WIDTH),
        }
    }

    /// NCCL's settings: of a machine's text, overridden by the environment and that by the command
    /// line. NCCL_TOPO_FILE is dropped with a remark, because the command line names the file.
    pub(crate) fn settings(
        &self,
        machines: &[Machine],
        variables: &Variables,
        remarks: &mut Vec<String>,
    ) -> Settings {
        let mut layers = variables.over(machines);
        remarks.append(&mut layers.notes);
        let mut own = self.nccl.clone();
        let mut is_read = |(name, value): &(String, String)| {
            let named_here = name == "NCCL_TOPO_FILE";
            if named_here {
                remarks.push(format!(
                    "NCCL_TOPO_FILE={value} is not read: the command line names the file"
                ));
            }
            !named_here
        };
        layers.beneath.retain(&mut is_read);
        own.retain(&mut is_read);
        layers.given.retain(&mut is_read);
        layers.settings(own)
    }
}

/// How many threads may help one that reads a log: those that other cores can run.
pub(crate) fn helpers() -> usize {
    std::thread::available_parallelism().map_or(0, |cores| cores.get() - 1)
}
