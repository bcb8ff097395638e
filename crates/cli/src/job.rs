//! A job, planned: from the command line to the joined plan and its artifact.

use std::path::Path;

use anyhow::{Context, Result, bail};
use plan::nccl_graph::{self, GpuAddress, GraphFile};
use plan::{CostTable, Fingerprint, Plan, Producer, RequestSummary, Setting};
use planner::artifact::{self, Description};
use planner::cluster::{gpu_devices, nvlink_domain, with_gpus};
use planner::cost::{self, Profile};
use planner::{Cluster, HostPlan, Joined, Settings};
use topology::xml::Document;
use topology::{BuildOptions, NodeType, System};

use crate::arguments::JobArguments;
use crate::environment::Environment;
use crate::input::Machine;
use crate::output::Output;
use crate::render::{count, ranges, summary};
use crate::{numbers, rank_order};

/// Whose decisions are made.
const PROFILE: &str = "nccl-2.30";

/// Most GPUs that a list of GPUs may name.
const MOST_GPUS: usize = 1 << 16;

/// Largest graph file that is read, bytes.
const GRAPH_FILE_LIMIT: u64 = 64 << 20;

/// A planned job.
#[derive(Debug)]
pub struct Job {
    /// The distinct machines, in order of first appearance.
    pub machines: Vec<Machine>,
    /// What they are called and what they are.
    pub descriptions: Vec<Description>,
    /// GPUs of each, before anything is trimmed.
    gpus: Vec<usize>,
    /// What was planned.
    pub joined: Joined,
    /// What collectives cost.
    pub costs: CostTable,
    /// NCCL's settings.
    pub settings: Settings,
    request: RequestSummary,
    fingerprint: Fingerprint,
}

impl Job {
    /// Reads the files and plans the job they make.
    pub fn plan(
        arguments: &JobArguments,
        environment: &Environment,
        output: &mut Output,
    ) -> Result<Self> {
        let mut settings = environment.settings(&arguments.variables, &mut output.warnings);
        if let Some(file) = settings.graph_file.clone() {
            settings.graphs = Some(read_graph_file(&file, output)?);
        }
        let hosts = read_hosts(arguments, output)?;
        let mut cluster = Cluster::new();
        let mut fingerprint = Fingerprint::new(PROFILE);
        let (mut machines, mut descriptions, mut gpus): (Vec<Machine>, Vec<_>, Vec<_>) =
            Default::default();
        let mut ids = Vec::new();
        for (machine, copies) in hosts {
            let canonical = topology::xml::write(&machine.document);
            fingerprint = fingerprint.topology(canonical.as_bytes(), copies);
            let known = machines
                .iter()
                .position(|known: &Machine| known.document.root.same_as(&machine.document.root));
            let at = match known {
                Some(at) => at,
                None => {
                    let system = machine.system(&settings)?;
                    descriptions.push(Description {
                        name: machine.name.clone(),
                        summary: summary::machine(&system),
                    });
                    gpus.push(system.count(NodeType::Gpu));
                    ids.push(cluster.add_machine(system));
                    machines.push(machine);
                    machines.len() - 1
                }
            };
            cluster.place(ids[at], copies);
        }
        if let Some(order) = rank_order::parse(&arguments.rank_order, &cluster.gpu_runs())? {
            cluster.order_ranks(order);
        }
        let mut joined = Joined::new(cluster.plan(arguments.collnet, &settings)?, &settings)?;
        for node in joined
            .plan
            .machines
            .iter_mut()
            .flat_map(|machine| &mut machine.nodes)
        {
            output
                .warnings
                .extend(node.warnings.drain(..).map(|warning| warning.to_string()));
        }
        let costs = cost::table(
            &joined.cost_inputs(),
            &settings.tuning,
            &Profile::nccl_2_30(),
        )?;
        output
            .warnings
            .extend(joined.notes().iter().map(ToString::to_string));
        let request = RequestSummary {
            hosts: joined.layout().hosts(),
            nvlink_domain: joined
                .plan
                .machines
                .iter()
                .any(|machine| is_domain(&machine.nodes)),
            collnet: arguments.collnet,
        };
        Ok(Self {
            machines,
            descriptions,
            gpus,
            joined,
            costs,
            settings,
            request,
            fingerprint,
        })
    }

    /// The plan as the artifact that outlives the process.
    pub fn artifact(&self) -> Plan {
        let settings: Vec<Setting> = self
            .settings
            .deciding()
            .map(|(name, value)| Setting {
                name: name.to_owned(),
                value: value.to_owned(),
            })
            .collect();
        let graphs = self
            .settings
            .graphs
            .as_ref()
            .map(|graphs| format!("{graphs:?}"));
        let fingerprint = self
            .fingerprint
            .clone()
            .settings(&settings)
            .request(&self.request)
            .part("graph-file", graphs.unwrap_or_default().as_bytes());
        let fingerprint = match &self.joined.plan.order {
            Some(order) => fingerprint.part("rank-order", format!("{order:?}").as_bytes()),
            None => fingerprint,
        }
        .finish();
        let producer = Producer {
            name: "topo".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let mut plan = Plan::new(producer, PROFILE, fingerprint, self.request);
        plan.settings = settings;
        let costs = self.costs.clone();
        artifact::fill(&mut plan, &self.joined, costs, &self.descriptions);
        plan
    }

    /// The graphs of the first rank, as NCCL's graph file.
    pub fn graph_file(&self) -> Result<String> {
        let first = self.node(0);
        let system = first.view.system();
        let gpus: Vec<GpuAddress> = system
            .gpus()
            .map(|(node, gpu)| GpuAddress {
                rank: gpu.rank,
                host: system.node(node).id.system(),
                dev: gpu.dev,
            })
            .collect();
        Ok(nccl_graph::write(&first.graphs, &gpus)?)
    }

    /// What the first node of a machine decided.
    pub fn node(&self, machine: usize) -> &HostPlan {
        &self.joined.plan.machines[machine].nodes[0]
    }

    /// What the machine is called in the job.
    pub fn name(&self) -> String {
        self.descriptions
            .iter()
            .map(|machine| machine.name.as_str())
            .collect::<Vec<_>>()
            .join("+")
    }

    /// Hosts of the job.
    pub const fn hosts(&self) -> u32 {
        self.request.hosts
    }

    /// GPUs of a machine, before anything is trimmed.
    pub fn gpus(&self, machine: usize) -> usize {
        self.gpus[machine]
    }

    /// `2 hosts like this one, 16 ranks, joined by the network`.
    pub fn describe(&self, machine: usize) -> String {
        let ranks = self.joined.layout().ranks() as usize;
        let hosts = match (
            is_domain(&self.joined.plan.machines[machine].nodes),
            self.machines.len(),
            self.hosts(),
        ) {
            (_, 2.., hosts) => {
                let own = self
                    .joined
                    .plan
                    .runs
                    .iter()
                    .filter(|(at, _)| *at == machine)
                    .map(|(_, count)| count);
                format!("{} of {}", own.sum::<u32>(), count(hosts as usize, "host"))
            }
            (true, _, hosts) => format!("{} in one NVLink domain", count(hosts as usize, "host")),
            (false, _, 1) => "1 host".to_owned(),
            (false, _, hosts) => format!("{hosts} hosts like this one"),
        };
        let network = match (self.node(machine).view.inter, ranks == self.gpus(machine)) {
            (false, _) => "",
            // Parts of one machine that only the network joins.
            (true, true) => ", not all joined inside it",
            (true, false) => ", joined by the network",
        };
        let reduces = if self.request.collnet {
            ", which reduces (CollNet)"
        } else {
            ""
        };
        format!("{hosts}, {}{network}{reduces}", count(ranks, "rank"))
    }
}

fn is_domain(nodes: &[HostPlan]) -> bool {
    nodes
        .first()
        .is_some_and(|node| node.view.system().hosts().len() > 1)
}

/// The machines of the job in host order, each with how many in a row.
fn read_hosts(arguments: &JobArguments, output: &mut Output) -> Result<Vec<(Machine, u32)>> {
    if arguments.files.len() > 1 && arguments.hosts > 1 {
        bail!(
            "--hosts counts copies of one machine; with several files, name each file as often as it occurs"
        );
    }
    let mut hosts = Vec::new();
    for file in &arguments.files {
        let mut machine = Machine::read(file, output)?;
        if let Some(list) = &arguments.gpus {
            machine.document = some_gpus(&machine.document, list)?;
        }
        let recorded = recorded_hosts(&machine);
        if recorded > 1 {
            if arguments.hosts > 1 || arguments.files.len() > 1 {
                bail!(
                    "{} already holds an NVLink domain of {recorded} hosts (host_hash values); plan it alone",
                    machine.document.file
                );
            }
            output.warnings.push(format!(
                "{}: {recorded} different host_hash values: planned as the NVLink domain that they record; NCCL itself \
                 would take all of it for the local host",
                machine.document.file
            ));
        }
        hosts.push((machine, arguments.hosts));
    }
    if arguments.nvlink_domain && recorded_hosts(&hosts[0].0) < 2 {
        let documents = hosts
            .iter()
            .flat_map(|(machine, copies)| (0..*copies).map(|_| &machine.document));
        let Some(document) = nvlink_domain(documents) else {
            return Ok(hosts);
        };
        let name = hosts
            .iter()
            .map(|(machine, _)| machine.name.as_str())
            .collect::<Vec<_>>()
            .join("+");
        return Ok(vec![(Machine { name, document }, 1)]);
    }
    Ok(hosts)
}

/// The document with only the GPUs of a list.
fn some_gpus(document: &Document, list: &str) -> Result<Document> {
    let there = gpu_devices(document);
    let wanted = numbers::list(list, MOST_GPUS).with_context(|| format!("--gpus {list}"))?;
    let mut devices: Vec<i32> = Vec::new();
    for wanted in wanted {
        let found = i32::try_from(wanted).ok().filter(|dev| there.contains(dev));
        let Some(dev) = found else {
            bail!(
                "--gpus {list}: {} has no GPU{wanted}; it has GPU {}",
                document.file,
                ranges(&there, ", ")
            );
        };
        if devices.contains(&dev) {
            bail!("--gpus {list}: GPU{dev} is named twice");
        }
        devices.push(dev);
    }
    Ok(with_gpus(document, &devices))
}

/// How many hosts a file tells apart.
fn recorded_hosts(machine: &Machine) -> usize {
    System::from_document_with(&machine.document, BuildOptions::default())
        .map_or(1, |system| system.hosts().len())
}

fn read_graph_file(file: &str, output: &mut Output) -> Result<GraphFile> {
    let path = Path::new(file);
    let cannot = || format!("cannot read NCCL_GRAPH_FILE={file} (NCCL refuses to start then)");
    let size = std::fs::metadata(path).with_context(cannot)?.len();
    if size > GRAPH_FILE_LIMIT {
        bail!("NCCL_GRAPH_FILE={file} has {size} bytes; at most {GRAPH_FILE_LIMIT} are read");
    }
    let text = std::fs::read_to_string(path).with_context(cannot)?;
    let graphs = GraphFile::parse(file, &text)?;
    output
        .warnings
        .extend(graphs.warnings().iter().map(ToString::to_string));
    Ok(graphs)
}
