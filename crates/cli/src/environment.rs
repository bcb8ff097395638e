//! The only place where the environment and the terminal are asked.

use std::collections::BTreeMap;
use std::io::IsTerminal;

use planner::Settings;

use crate::arguments::Variables;

/// Columns when the output is no terminal and nothing else is said.
const DEFAULT_WIDTH: usize = 120;

/// Narrower than this nothing fits any more.
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

/// Others that they set, NCCL's for where ranks meet, and where there are folders for that.
const LAUNCHER_NAMES: [&str; 10] = [
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
];

/// What the surroundings say.
#[derive(Debug, Clone)]
pub struct Environment {
    /// Variables that begin with `NCCL_`, by name.
    pub nccl: Vec<(String, String)>,
    /// Variables by which launchers tell ranks who they are, and those that say where ranks meet.
    pub launcher: BTreeMap<String, String>,
    /// `CUDA_VISIBLE_DEVICES`.
    pub visible_devices: Option<String>,
    /// Standard output may be coloured.
    pub colour: bool,
    /// Standard error is a terminal, on which progress can be shown.
    pub progress: bool,
    /// Columns to fill.
    pub width: usize,
}

impl Environment {
    /// The value of one of NCCL's variables; the command line comes last and counts.
    pub fn nccl_value(&self, variables: &Variables, name: &str) -> Option<String> {
        let mut all = self.nccl.iter().chain(&variables.set);
        all.rfind(|(it, _)| it == name)
            .map(|(_, value)| value.clone())
    }

    /// Asks the process's environment and its standard output.
    pub fn read() -> Self {
        let text = |name| std::env::var(name).unwrap_or_default();
        let mut nccl: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, value)| {
                Some((
                    name.into_string().ok()?,
                    value.to_string_lossy().into_owned(),
                ))
            })
            .filter(|(name, _)| name.starts_with("NCCL_"))
            .collect();
        nccl.sort();
        let launcher = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            let ours = LAUNCHER_NAMES.contains(&name.as_str())
                || LAUNCHER_PREFIXES.iter().any(|it| name.starts_with(it));
            ours.then(|| (name, value.to_string_lossy().into_owned()))
        });
        let terminal = std::io::stdout().is_terminal();
        let columns = if terminal {
            terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
        } else {
            None
        };
        let columns = columns.or_else(|| text("COLUMNS").parse().ok());
        Self {
            nccl,
            launcher: launcher.collect(),
            visible_devices: std::env::var("CUDA_VISIBLE_DEVICES").ok(),
            colour: terminal && text("NO_COLOR").is_empty() && text("TERM") != "dumb",
            progress: std::io::stderr().is_terminal() && text("TERM") != "dumb",
            width: columns.unwrap_or(DEFAULT_WIDTH).max(LEAST_WIDTH),
        }
    }

    /// NCCL's settings: the environment's, and over them those of the command line. Variables that name the topology
    /// are dropped with a remark, because the command line names it.
    pub fn settings(&self, given: &Variables, remarks: &mut Vec<String>) -> Settings {
        let variables = self.nccl.iter().chain(&given.set).filter(|(name, value)| {
            let named_here = name == "NCCL_TOPO_FILE";
            if named_here {
                remarks.push(format!(
                    "NCCL_TOPO_FILE={value} is not read: the command line names the file"
                ));
            }
            !named_here
        });
        Settings::from_variables(variables.cloned().collect::<Vec<_>>())
    }
}
