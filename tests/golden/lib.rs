//! Golden cases: topology files with the decisions of NCCL's own planning code.
//!
//! A folder of cases has `topologies/*.xml` and `cases/*.json`. [`Case::replay`] plans a case again
//! as NCCL 2.30.7 and compares section by section: floating-point values within a relative
//! tolerance, everything else exactly.

pub mod binary;
mod compare;
pub mod expectation;
mod merged;
mod system;
mod tuning;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use plan::{CostTable, Graph};
use planner::{EqualHosts, HostPlan, Job, NcclVersion, Planned, Settings};
use serde_json::Value;
use testkit::{Machine, elsewhere};

use compare::Difference;

/// The sections of a case that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// Whether NCCL plans the case.
    Refusal,
    /// The bandwidths that bound the search.
    System,
    /// Nodes and links.
    Nodes,
    /// Paths.
    Paths,
    /// The searched graphs.
    Graphs,
    /// The joined hosts.
    Merged,
    /// The costs of collectives, from our own joined hosts.
    Tuning,
}

impl Section {
    /// All sections.
    pub const ALL: [Self; 7] = [
        Self::Refusal,
        Self::System,
        Self::Nodes,
        Self::Paths,
        Self::Graphs,
        Self::Merged,
        Self::Tuning,
    ];

    /// The name in a case file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refusal => "refusal",
            Self::System => "system",
            Self::Nodes => "nodes",
            Self::Paths => "paths",
            Self::Graphs => "graphs",
            Self::Merged => "merged",
            Self::Tuning => "tuning",
        }
    }
}

/// One case file.
#[derive(Debug)]
pub struct Case {
    /// Its name.
    pub name: String,
    answer: Value,
    files: Files,
}

/// The topology files of a case.
#[derive(Debug)]
enum Files {
    /// A folder, with the names that the case gives.
    In(PathBuf),
    /// One file for all names.
    One(PathBuf),
}

/// A section, and its first difference if there is one.
pub type Verdict = (Section, Option<String>);

impl Case {
    /// Reads a case file. `topologies`: the folder with its topology files.
    ///
    /// # Errors
    /// The file cannot be read or is not a case.
    pub fn read(path: &Path, topologies: &Path) -> Result<Self> {
        Self::read_with(path, Files::In(topologies.to_owned()))
    }

    /// NCCL's answers for a machine.
    ///
    /// # Errors
    /// A file of the machine cannot be read or is not a case.
    pub fn on(machine: &Machine) -> Result<Vec<Self>> {
        let read = |path: &PathBuf| Self::read_with(path, Files::One(machine.topology()));
        machine.answers()?.iter().map(read).collect()
    }

    fn read_with(path: &Path, files: Files) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let answer: Value =
            serde_json::from_str(&text).with_context(|| format!("parsing {}", path.display()))?;
        let name = path
            .file_stem()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        Ok(Self {
            name,
            answer,
            files,
        })
    }

    /// All case files of a folder, by name.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn list(folder: &Path) -> Result<Vec<PathBuf>> {
        let cases = folder.join("cases");
        elsewhere::files(&cases, "json").with_context(|| format!("reading {}", cases.display()))
    }

    fn has_flag(&self, flag: &str) -> bool {
        self.answer["flags"]
            .as_array()
            .is_some_and(|flags| flags.iter().any(|other| other == flag))
    }

    /// NCCL's settings in the case.
    pub fn settings(&self) -> Settings {
        let variables = self.answer["env"].as_object().into_iter().flatten();
        Settings::with_variables(
            NcclVersion::V2_30,
            variables
                .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned())),
        )
    }

    /// The job of the case: one file for all hosts, or one for each.
    ///
    /// # Errors
    /// A topology file cannot be read.
    pub fn job(&self) -> Result<Job> {
        let files = self.answer["topologies"]
            .as_array()
            .context("a case names topologies")?;
        let count = match files.len() {
            1 => self.answer["hosts"].as_u64().unwrap_or(1) as u32,
            _ => 1,
        };
        let mut hosts: Vec<EqualHosts> = Vec::new();
        for file in files {
            let file = file.as_str().context("a topology is a file name")?;
            let document = match hosts.iter().find(|known| known.name == file) {
                Some(known) => Arc::clone(&known.document),
                None => Arc::new(topology::xml::parse(file, &self.read_topology(file)?)?),
            };
            hosts.push(EqualHosts {
                name: file.to_owned(),
                document,
                edits: Vec::new(),
                count,
            });
        }
        Ok(Job {
            nvlink_domain: self.has_flag("--mnnvl"),
            collnet: self.has_flag("--collnet"),
            as_is: true,
            physical_ports: !self.has_flag("--fuse"),
            ..Job::of(hosts)
        })
    }

    /// The name of the (first) topology file.
    pub fn topology(&self) -> &str {
        self.answer["topologies"][0].as_str().unwrap_or_default()
    }

    fn file(&self, name: &str) -> PathBuf {
        match &self.files {
            Files::In(folder) => folder.join(name),
            Files::One(file) => file.clone(),
        }
    }

    /// The (first) topology file.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn topology_bytes(&self) -> Result<Vec<u8>> {
        self.read_topology(self.topology())
    }

    fn read_topology(&self, file: &str) -> Result<Vec<u8>> {
        let path = self.file(file);
        std::fs::read(&path).with_context(|| format!("reading {}", path.display()))
    }

    fn plan(&self) -> Result<Planned> {
        Ok(planner::plan(&self.job()?, &self.settings())?)
    }

    /// Plans the case and compares it.
    pub fn replay(&self) -> Vec<Verdict> {
        let refused = self.answer.get("error").is_some();
        let planned = match self.plan() {
            Err(_) if refused => return vec![(Section::Refusal, None)],
            Err(error) => {
                return vec![(
                    Section::Refusal,
                    Some(format!("NCCL plans it, but: {error:#}")),
                )];
            }
            Ok(_) if refused => {
                let phase = self.answer["phase"].as_str().unwrap_or("?");
                return vec![(
                    Section::Refusal,
                    Some(format!("planned, but NCCL refuses it in {phase}")),
                )];
            }
            Ok(planned) => planned,
        };
        let job = &planned.job;
        let Some(first) = job.layout().node(0).map(|node| job.node_plan(node)) else {
            return vec![(Section::Refusal, Some("planned without ranks".to_owned()))];
        };
        let mut verdicts = vec![(Section::Refusal, None)];
        let mut judge = |section, difference: Result<(), Difference>| {
            verdicts.push((
                section,
                difference.err().map(|difference| difference.to_string()),
            ));
        };
        judge(
            Section::System,
            system::check_bounds(first, &self.answer["system"]),
        );
        judge(
            Section::Nodes,
            system::check_nodes(first.view.system(), &self.answer["nodes"]),
        );
        if let Some(paths) = self.answer["paths"].as_array() {
            judge(Section::Paths, system::check_paths(first, paths));
        }
        judge(Section::Graphs, check_graphs(first, &self.answer["graphs"]));
        judge(
            Section::Merged,
            merged::check(job, self.has_flag("--mnnvl"), &self.answer["merged"]),
        );
        // A table that is written into a plan and read back must choose the same.
        let read =
            serde_json::to_string(&planned.costs).and_then(|text| serde_json::from_str(&text));
        let table =
            read.map_err(|error| Difference::new("table as JSON", error.to_string(), "a table"));
        judge(
            Section::Tuning,
            table.and_then(|table: CostTable| tuning::check(&table, &self.answer["tuning"])),
        );
        verdicts
    }
}

fn check_graphs(planned: &HostPlan, answer: &Value) -> Result<(), Difference> {
    for (kind, key) in compare::GRAPHS {
        match (planned.graph(kind), answer.get(key)) {
            (None, None) => {}
            (Some(graph), Some(expected)) => {
                check_graph(planned, graph, expected)
                    .map_err(|difference| difference.within(key))?;
            }
            (mine, theirs) => {
                let word = |there| if there { "searched" } else { "not searched" };
                return Err(Difference::new(
                    key,
                    word(mine.is_some()),
                    word(theirs.is_some()),
                ));
            }
        }
    }
    Ok(())
}

fn check_graph(planned: &HostPlan, graph: &Graph, expected: &Value) -> Result<(), Difference> {
    compare::graph!(graph, graph.channels.len(), expected)?;
    let system = planned.view.system();
    let dev_of = |rank: i32| {
        system
            .gpu_of_rank(rank)
            .and_then(|gpu| system.gpu(gpu))
            .map_or(-1, |gpu| gpu.dev)
    };
    for (index, channel) in graph.channels.iter().enumerate() {
        let theirs = &expected["channels"][index];
        let devs: Vec<i64> = channel
            .ranks
            .iter()
            .map(|rank| i64::from(dev_of(*rank)))
            .collect();
        let name = |part: &str| format!("channels[{index}].{part}");
        let expected_devs = integers(&theirs["gpus"]).take(channel.ranks.len());
        same(&name("gpus"), &devs, expected_devs)?;
        if let Some(nets) = channel.nets {
            same(&name("nets"), &nets, integers(&theirs["nets"]))?;
        }
    }
    Ok(())
}

fn integers(list: &Value) -> impl Iterator<Item = i64> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(Value::as_i64)
}

fn same(name: &str, mine: &[i64], theirs: impl Iterator<Item = i64>) -> Result<(), Difference> {
    let theirs: Vec<i64> = theirs.collect();
    if mine == theirs {
        return Ok(());
    }
    let (mine, theirs) = (format!("{mine:?}"), format!("{theirs:?}"));
    Err(Difference::new(name, mine, theirs))
}
