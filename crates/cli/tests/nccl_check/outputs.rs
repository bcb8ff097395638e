//! Every output of `topo` that NCCL reads, on jobs of one and several hosts, and of hosts that are
//! several nodes: NCCL's libraries load it and follow it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Arc;

use libtest_mimic::{Completion, Failed};
use nccl_binary::job::{HostAnswer, Job, JobHost};
use nccl_binary::log;
use plan::Plan;
use plan::nccl_graph::GraphFile;
use planner::{EqualHosts, NcclVersion, Planned, Settings};
use records::nccl_log::compare::{Field, PlannerOutcome, compare};
use serde_json::Value;
use topology::xml::Document;
use tuner_plugin::LIBRARY_FILE;

use crate::graphs::{devices, reversed};
use crate::obeyed::{document, job};
use crate::{check, library, not_fetched, program};

/// The machines whose outputs are tried.
pub(crate) const MACHINES: [&str; 20] = [
    "ac922-power9",
    "aws-p4d",
    "aws-p5",
    "azure-ndv4",
    "azure-ndv6",
    "dgx-1v",
    "dgx-2",
    "dgx-a100",
    "dgx-b200",
    "dgx-h100",
    "gb200-nvl72-tray",
    "gh200",
    "oci-a100",
    "pcie-8gpu-broadcom",
    "pcie-8gpu-niccpu",
    "pcie-8gpu-switch-per-socket",
    "random-00021",
    "random-00078",
    "workstation-2gpu",
    "workstation-2gpu-nvlink",
];

/// Numbers of hosts.
pub(crate) const HOSTS: [u32; 3] = [1, 2, 4];

/// The jobs of every test run: two hosts, and a host that is several nodes.
pub(crate) const IN_EVERY_RUN: [(&str, u32); 2] = [("workstation-2gpu", 2), ("random-00021", 1)];

/// What the rank's log says of each graph of a file.
const LOADED: &str = "channels loaded from XML graph";

/// A command that writes files for NCCL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    Plan,
    Rings,
    Export,
    Tune,
}

impl Writer {
    pub(crate) const ALL: [Self; 4] = [Self::Plan, Self::Rings, Self::Export, Self::Tune];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Rings => "rings",
            Self::Export => "export",
            Self::Tune => "tune",
        }
    }
}

/// A job for which files are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    pub version: &'static str,
    pub writer: Writer,
    pub machine: &'static str,
    pub hosts: u32,
}

/// A graph file and the GPUs whose ranks read it; `None` for all.
struct Written {
    readers: Option<Vec<i32>>,
    file: PathBuf,
}

impl Case {
    /// A command about the job, whose ports are devices of their own: before 2.30, threads of one
    /// process do not agree on merged ones.
    fn command(&self, name: &str) -> Command {
        let minor = self.version.rsplit_once('.');
        let minor = minor.map_or(self.version, |it| it.0);
        let mut command = program(name, self.machine);
        command.args(["--hosts", &self.hosts.to_string()]).args([
            "--nccl",
            minor,
            "--net-merge",
            "off",
        ]);
        command
    }

    /// The job as `topo` plans it, with a graph file or without.
    fn planned(&self, complete: &Document, graphs: Option<GraphFile>) -> Result<Planned, Failed> {
        let minor = self.version.rsplit_once('.');
        let version: NcclVersion = minor.map_or(self.version, |it| it.0).parse()?;
        let job = planner::Job {
            physical_ports: true,
            ..planner::Job::of(vec![EqualHosts {
                name: self.machine.to_owned(),
                document: Arc::new(complete.clone()),
                edits: Vec::new(),
                count: self.hosts,
            }])
        };
        let mut settings = Settings::with_variables(version, Vec::new());
        settings.graphs = graphs;
        Ok(planner::plan(&job, &settings)?)
    }

    /// The graph files that a command writes, or why it writes none.
    fn write(&self, folder: &Path) -> Result<Result<Vec<Written>, String>, Failed> {
        let graph = |command: &mut Command| {
            let said = command.args(["--format", "nccl-graph"]).output()?;
            let file = folder.join("graph.xml");
            fs::write(&file, &said.stdout)?;
            Ok(said
                .status
                .success()
                .then_some(file)
                .ok_or_else(|| err(&said)))
        };
        let of_first = |file: PathBuf| {
            vec![Written {
                readers: None,
                file,
            }]
        };
        match self.writer {
            Writer::Plan => {
                let written: Result<_, Failed> = graph(&mut self.command("plan"));
                written?.map(of_first).map_err(Failed::from).map(Ok)
            }
            Writer::Rings => {
                let written: Result<_, Failed> =
                    graph(self.command("plan").args(["--strategy", "ring"]));
                Ok(written?.map(of_first))
            }
            Writer::Export => {
                let mut command = self.command("export");
                let said = command.arg("--json").arg("--dir").arg(folder).output()?;
                check(said.status.success(), || err(&said))?;
                let report: Value = serde_json::from_slice(&said.stdout)?;
                let files = report["files"].as_array().ok_or("no files")?;
                let graphs = files.iter().filter(|it| it["kind"] == "graph");
                let written: Result<Vec<Written>, Failed> = graphs
                    .map(|it| {
                        let readers = it["readers"].as_str().map(devices).transpose()?;
                        let file = it["file"].as_str().ok_or("a file without a name")?;
                        let file = folder.join(file);
                        Ok(Written { readers, file })
                    })
                    .collect();
                Ok(Ok(written?))
            }
            Writer::Tune => Err("topo tune asks the library itself".into()),
        }
    }

    /// The job with a process for each node: nodes of one host read different files, and only the
    /// network joins them, as it joins hosts.
    fn by_node(&self, whole: Job, complete: &Document, plan: &Plan, written: &[Written]) -> Job {
        let machine = &plan.machines[0];
        let all = planner::gpu_devices(complete);
        let parts = machine.groups.iter().map(|group| {
            let members = machine.members(group).into_iter();
            members.map(|(_, dev)| dev).collect::<Vec<i32>>()
        });
        let parts: Vec<Vec<i32>> = parts.collect();
        let mut hosts = Vec::new();
        for host in 0..self.hosts {
            for (number, part) in parts.iter().enumerate() {
                let own = |of: &&Written| match &of.readers {
                    Some(readers) => readers == part,
                    // A file of a whole machine, or that of the first rank's node.
                    None => number == 0,
                };
                let file = written.iter().find(own);
                let file = file.map(|it| it.file.display().to_string());
                let variable = file.map(|file| ("NCCL_GRAPH_FILE".to_owned(), file));
                let ranks = (host * all.len() as u32..).zip(&all);
                let ranks = ranks.filter(|(_, dev)| part.contains(dev));
                hosts.push(JobHost {
                    topology: topology::xml::write(&planner::with_gpus(complete, part)),
                    ranks: ranks.map(|(rank, _)| rank).collect(),
                    variables: variable.into_iter().collect(),
                });
            }
        }
        Job { hosts, ..whole }
    }
}

fn err(said: &Output) -> String {
    String::from_utf8_lossy(&said.stderr).into_owned()
}

/// NCCL loads what the command writes, and decides as it says. A command that has nothing to write
/// for a job is reported as not run, with its reason.
pub(crate) fn are_followed(case: Case) -> Result<Completion, Failed> {
    let Some(library) = library(case.version) else {
        return not_fetched(case.version);
    };
    let folder = tempfile::tempdir()?;
    if case.writer == Writer::Tune {
        return tuned(&case, &library, folder.path());
    }
    let written = match case.write(folder.path())? {
        Ok(written) => written,
        Err(why) => return Ok(Completion::ignored_with(why)),
    };
    let (complete, _) = nccl_binary::machine::complete(&document(case.machine)?);
    let own = case.planned(&complete, None)?;
    let groups = &own.plan().machines[0].groups;
    let mut graphs = None;
    if let ([_], [written]) = (groups.as_slice(), written.as_slice()) {
        let mut text = fs::read_to_string(&written.file)?;
        if case.hosts == 1 {
            // Rings that NCCL would not find itself.
            text = reversed(&text);
            fs::write(&written.file, &text)?;
        }
        graphs = Some(GraphFile::parse("graph.xml", &text)?);
    }
    let planned = match graphs {
        Some(graphs) => case.planned(&complete, Some(graphs))?,
        None => own,
    };
    let whole = job(&complete, case.hosts, library, None);
    let mut job = case.by_node(whole, &complete, planned.plan(), &written);
    job.request.sizes = vec![1 << 10, 1 << 20, 1 << 26];
    job.request.graphs = true;
    if case.writer == Writer::Export {
        job.request.tuner = Some(folder.path().join(LIBRARY_FILE));
    }
    agree(&job, &job.run()?, &planned)
}

/// All ranks with a file have loaded it, and nothing differs from the plan.
fn agree(job: &Job, answers: &[HostAnswer], planned: &Planned) -> Result<Completion, Failed> {
    for (host, answer) in job.hosts.iter().zip(answers) {
        let expected = match host.variables.is_empty() {
            true => 0,
            false => host.ranks.len(),
        };
        let lines = answer.log.iter();
        let loaded = lines.filter(|line| line.contains("Search 0 :") && line.contains(LOADED));
        let loaded = loaded.count();
        check(loaded == expected, || {
            let last = answer.log.last();
            format!("{loaded} of {expected} ranks loaded their rings; {last:?}")
        })?;
    }
    let mut answer = log::read(answers);
    answer.other_tuner = job.request.tuner.is_some();
    let plan = PlannerOutcome::Plan(planned.plan(), &planned.logged_costs());
    let mut fields = compare(&answer, plan);
    // Here the nodes of a host are hosts, which share no memory.
    let nodes = planned.plan().machines[0].groups.len();
    if nodes > 1 && planned.settings.rules.shares_between_nodes {
        fields.retain(|it| !matches!(it.field, Field::Transports | Field::Nics));
    }
    for field in &fields {
        let name = field.field.name();
        let first = field.differences.first();
        check(first.is_none(), || {
            format!("{name}: {} differ: {first:?}", field.differences.len())
        })?;
    }
    // A log with lines of many ranks lacks the rings, not the graphs.
    let mut compared = fields.iter().filter(|it| it.field == Field::Graphs);
    check(compared.any(|it| it.values > 0), || "no graphs".to_owned())?;
    Ok(Completion::Completed)
}

/// `topo tune` asks the library itself about the files that it writes.
fn tuned(case: &Case, library: &Path, folder: &Path) -> Result<Completion, Failed> {
    let mut command = case.command("tune");
    command.arg("--dir").arg(folder).arg("--nccl-library");
    let said = command.arg(library).arg("--json").output()?;
    check(matches!(said.status.code(), Some(0 | 1)), || err(&said))?;
    let report: Value = serde_json::from_slice(&said.stdout)?;
    if report["proposal"].is_null() {
        return Ok(Completion::ignored_with("nothing to gain"));
    }
    let verdict = &report["checks"][0];
    check(verdict["agrees"] == true, || verdict.to_string())?;
    Ok(Completion::Completed)
}
