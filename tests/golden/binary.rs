//! Answers of NCCL's published binaries, by version: a folder for each version holds one JSON file
//! for each machine and number of hosts, with the graphs and topologies that NCCL dumped.

mod choices;
mod fields;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use planner::{EqualHosts, Job, NcclVersion, Planned, Settings};
use serde_json::Value;
use testkit::{Machine, elsewhere};

/// A field of an answer that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// Whether NCCL plans the job.
    Outcome,
    /// Bounds of the search, CPUs and the links between them.
    System,
    /// The graphs in figures.
    Searched,
    /// The graph file, to the byte.
    Graph,
    /// Nodes and NVLink domains.
    Nodes,
    /// Numbers of channels.
    Channels,
    /// Chunk sizes.
    Chunks,
    /// Bytes that make a thread worthwhile.
    Threads,
    /// Rings over all nodes.
    Rings,
    /// Trees over all nodes.
    Trees,
    /// Heads of NVLink SHARP, and trees over them.
    Nvls,
    /// Latencies and bandwidths.
    Model,
    /// Predicted times for each size.
    Costs,
    /// Algorithm and protocol for each size.
    Choices,
    /// The channels that each choice uses.
    ChoiceChannels,
}

impl Field {
    /// All fields, in the order of comparison.
    pub const ALL: [Self; 15] = [
        Self::Outcome,
        Self::System,
        Self::Searched,
        Self::Graph,
        Self::Nodes,
        Self::Channels,
        Self::Chunks,
        Self::Threads,
        Self::Rings,
        Self::Trees,
        Self::Nvls,
        Self::Model,
        Self::Costs,
        Self::Choices,
        Self::ChoiceChannels,
    ];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Outcome => "outcome",
            Self::System => "system",
            Self::Searched => "searched",
            Self::Graph => "graph",
            Self::Nodes => "nodes",
            Self::Channels => "channels",
            Self::Chunks => "chunks",
            Self::Threads => "threads",
            Self::Rings => "rings",
            Self::Trees => "trees",
            Self::Nvls => "nvls",
            Self::Model => "model",
            Self::Costs => "costs",
            Self::Choices => "choices",
            Self::ChoiceChannels => "choice channels",
        }
    }
}

/// The answer of one binary for one job.
#[derive(Debug)]
pub struct Answer {
    /// Its version.
    pub version: NcclVersion,
    /// The machine and the number of hosts, such as `dgx-h100.h2`.
    pub name: String,
    value: Value,
    folder: PathBuf,
}

/// A field, and its first difference if there is one.
pub type FieldVerdict = (Field, Option<String>);

/// Files that are no answers.
const CONSTANTS: &str = "constants.json";

impl Answer {
    /// The versions that have a folder.
    pub fn versions(folder: &Path) -> Vec<NcclVersion> {
        let there = |version: &NcclVersion| folder.join(version.name()).is_dir();
        NcclVersion::ALL.into_iter().filter(there).collect()
    }

    /// The answer files of a version, by name.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn list(folder: &Path, version: NcclVersion) -> Result<Vec<PathBuf>> {
        let own = folder.join(version.name());
        let mut files =
            elsewhere::files(&own, "json").with_context(|| format!("reading {}", own.display()))?;
        files.retain(|file| file.file_name().is_some_and(|name| name != CONSTANTS));
        Ok(files)
    }

    /// The answers that are kept beside a machine, by version and name.
    ///
    /// # Errors
    /// A file cannot be read or is no answer.
    pub fn beside(machine: &Machine) -> Result<Vec<Self>> {
        let folder = machine.folder.join("nccl");
        let mut answers = Vec::new();
        for version in Self::versions(&folder) {
            for path in Self::list(&folder, version)? {
                answers.push(Self::read(&path, &folder)?);
            }
        }
        Ok(answers)
    }

    /// Reads an answer. `folder` holds the folders of all versions.
    ///
    /// # Errors
    /// The file cannot be read or is no answer.
    pub fn read(path: &Path, folder: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let value: Value =
            serde_json::from_str(&text).with_context(|| format!("parsing {}", path.display()))?;
        let version = value["nccl"]
            .as_str()
            .context("an answer names its version")?;
        Ok(Self {
            version: version.parse()?,
            name: path
                .file_stem()
                .map(|name| name.to_string_lossy().into_owned())
                .unwrap_or_default(),
            value,
            folder: folder.to_owned(),
        })
    }

    /// The name of the machine.
    pub fn machine(&self) -> &str {
        self.value["topology"].as_str().unwrap_or_default()
    }

    /// The job on the machine's own file, whose parts the ranks join. Where the file has no port,
    /// NCCL took an interface of its own: the job is on its dump.
    ///
    /// # Errors
    /// The topology cannot be read.
    pub fn job(&self, machines: &Path) -> Result<Job> {
        let planned_on = self.value["planned_on"].as_str().unwrap_or_default();
        let as_is = self.value.get("network").is_some() && planned_on.ends_with(".xml");
        let path = if as_is {
            self.folder.join(planned_on)
        } else {
            machines.join(self.machine()).join("topology.xml")
        };
        let bytes = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let document = topology::xml::parse(self.machine(), &bytes)?;
        let mut hosts = EqualHosts {
            name: self.machine().to_owned(),
            document: Arc::new(document),
            edits: Vec::new(),
            count: 1,
        };
        // The dump of an NVLink domain holds all of its hosts.
        if hosts.document.recorded_hosts() == 1 {
            hosts.count = self.value["hosts"].as_u64().unwrap_or(1) as u32;
        }
        Ok(Job {
            nvlink_domain: self.value["nvlink_domain"] == true,
            as_is,
            // The stand-in network has physical ports only.
            physical_ports: true,
            ..Job::of(vec![hosts])
        })
    }

    /// Plans the job as this version would.
    ///
    /// # Errors
    /// The topology cannot be read, or the planner refuses the job.
    pub fn plan(&self, machines: &Path) -> Result<Planned> {
        let job = self.job(machines)?;
        let mut settings = Settings::of(self.version);
        // The stand-in devices multicast from Hopper on, even without an NVSwitch.
        let first = job
            .hosts
            .first()
            .map(|hosts| settings.system(&hosts.document));
        let first = first.transpose()?;
        let first = first.as_ref().and_then(|system| system.gpus().next());
        if first.is_some_and(|(_, gpu)| gpu.sm >= 90) {
            settings.nvls_enable = 1;
        }
        Ok(planner::plan(&job, &settings)?)
    }

    /// Plans the job again and compares it. `machines`: the folder of the machines' own files.
    pub fn replay(&self, machines: &Path) -> Vec<FieldVerdict> {
        let refused = self.value["outcome"] == "error";
        let planned = match self.plan(machines) {
            Err(_) if refused => return vec![(Field::Outcome, None)],
            Err(error) => {
                let why = format!("NCCL plans it, but: {error:#}");
                return vec![(Field::Outcome, Some(why))];
            }
            Ok(_) if refused => {
                let why = "planned, but NCCL refuses it".to_owned();
                return vec![(Field::Outcome, Some(why))];
            }
            Ok(planned) => planned,
        };
        let compare = |field: Field| {
            let compared = fields::check(field, &planned, self)?;
            Some((
                field,
                compared.err().map(|difference| difference.to_string()),
            ))
        };
        let mut verdicts = vec![(Field::Outcome, None)];
        verdicts.extend(Field::ALL.into_iter().filter_map(compare));
        verdicts
    }

    /// The graphs that NCCL dumped; `None` if there is no dump.
    fn graph_file(&self) -> Option<String> {
        let name = self.value["graph"].as_str()?;
        std::fs::read_to_string(self.folder.join(name)).ok()
    }
}
