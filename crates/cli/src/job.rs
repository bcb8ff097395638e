//! A job, planned: from the command line to the joined plan and its artifact.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use plan::nccl_graph::{self, GpuAddress, GraphFile};
use plan::{CostTable, Fingerprint, Plan, Producer, RequestSummary, Setting};
use planner::artifact::{self, Description};
use planner::cluster::{gpu_devices, nvlink_domain, with_gpus};
use planner::cost::{self, Profile};
use planner::{Cluster, HostPlan, JobPlan, Settings};
use topology::NodeType;

use probe::complete::Missing;
use topology::xml::{Element, Tag};

use crate::arguments::JobArguments;
use crate::complete::explain;
use crate::edits;
use crate::environment::Environment;
use crate::input::{Machine, Source};
use crate::output::Output;
use crate::progress::Progress;
use crate::render::{count, ranges, summary};
use crate::{numbers, rank_order};

/// Whose decisions are made.
const PROFILE: &str = "nccl-2.30";

/// Most GPUs that a list of GPUs may name.
const MOST_GPUS: usize = 1 << 16;

/// Largest graph file that is read, bytes.
const GRAPH_FILE_LIMIT: u64 = 64 << 20;

/// Most hosts of an NVLink domain: NCCL has room for so many GPUs in one, and a host has at least one.
const MOST_DOMAIN_HOSTS: u64 = 640;

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
    pub joined: JobPlan,
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
        let machines = read_machines(arguments, output)?;
        Self::of_machines(machines, arguments, environment, output)
    }

    /// Plans the job that these machines make.
    pub fn of_machines(
        machines: Vec<Machine>,
        arguments: &JobArguments,
        environment: &Environment,
        output: &mut Output,
    ) -> Result<Self> {
        let settings = read_settings(arguments, environment, output)?;
        let _progress = Progress::new(environment, "planning");
        let hosts = hosts(machines, arguments, output)?;
        Self::of(hosts, arguments, settings, &Profile::nccl_2_30(), output)
    }

    /// Plans a job of these hosts, which were read and edited already, and prices it by these constants.
    pub fn of(
        hosts: Vec<(Machine, u32)>,
        arguments: &JobArguments,
        settings: Settings,
        profile: &Profile,
        output: &mut Output,
    ) -> Result<Self> {
        let hosts = if arguments.nvlink_domain {
            join_domain(hosts, &settings, output)?
        } else {
            hosts
        };
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
                    let mut summary = summary::machine(&system);
                    if !machine.edits.is_empty() {
                        summary.push_str(&format!("; edited: {}", machine.edits.join(" ")));
                    }
                    descriptions.push(Description {
                        name: machine.name.clone(),
                        summary,
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
        let mut joined = JobPlan::new(cluster.plan(arguments.collnet, &settings)?, &settings)?;
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
        let costs = cost::table(&joined.cost_inputs(), &settings.tuning, profile)?;
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

    /// The settings that decide something.
    pub fn deciding(&self) -> Vec<Setting> {
        self.settings
            .deciding()
            .map(|(name, value)| Setting {
                name: name.to_owned(),
                value: value.to_owned(),
            })
            .collect()
    }

    /// The plan as the artifact that outlives the process.
    pub fn artifact(&self) -> Plan {
        let settings = self.deciding();
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

    /// What the job's machines are called, each once.
    pub fn name(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for machine in &self.descriptions {
            if !names.contains(&machine.name.as_str()) {
                names.push(&machine.name);
            }
        }
        names.join("+")
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

/// NCCL's settings for a job, with the graph file that they name.
pub fn read_settings(
    arguments: &JobArguments,
    environment: &Environment,
    output: &mut Output,
) -> Result<Settings> {
    let mut settings = environment.settings(&arguments.variables, &mut output.warnings);
    if let Some(file) = settings.graph_file.clone() {
        settings.graphs = Some(read_graph_file(&file, output)?);
    }
    Ok(settings)
}

/// Standard input can be one of the files only.
pub fn refuse_input_twice(arguments: &JobArguments) -> Result<()> {
    let from_input = |file: &&PathBuf| file.as_path() == Path::new("-");
    if arguments.files.iter().filter(from_input).count() > 1 {
        bail!("standard input (-) can be read once only; use --hosts for equal hosts, or files");
    }
    Ok(())
}

/// The machines that the arguments name.
pub fn read_machines(arguments: &JobArguments, output: &mut Output) -> Result<Vec<Machine>> {
    refuse_input_twice(arguments)?;
    let files = arguments.files.iter();
    let assumptions = arguments.assume.all();
    files
        .map(|file| {
            let mut machine = Machine::read(file, output)?;
            if machine.is_rccl() {
                return Ok(machine);
            }
            machine.document = probe::complete::complete(&machine.document, &assumptions);
            let missing = Missing::of(&machine.document);
            if !missing.is_empty() {
                let text = explain(&machine.document, &missing);
                // Without any GPU there is nothing to plan; otherwise what is there can be.
                if !has_gpu(&machine.document.root) && !missing.gpus.is_empty() {
                    bail!("{text}");
                }
                output.warnings.push(text);
            } else if !has_gpu(&machine.document.root) {
                bail!(
                    "{} has no GPU to plan for; `topo run --ranks N` runs collectives on the processors of a machine",
                    machine.document.file
                );
            }
            Ok(machine)
        })
        .collect()
}

/// Whether a GPU of the file is used by a rank.
fn has_gpu(element: &Element) -> bool {
    match element.tag {
        Tag::Gpu => element.get("rank").is_some(),
        _ => element.children.iter().any(has_gpu),
    }
}

/// The plan that the job's only file is, or the machines that its files are.
pub fn read_plan(
    arguments: &JobArguments,
    output: &mut Output,
) -> Result<Result<Box<Plan>, Vec<Machine>>> {
    refuse_input_twice(arguments)?;
    let mut machines = Vec::new();
    for file in &arguments.files {
        match Source::read(file, output)? {
            Source::Plan(_, plan) if arguments.files.len() == 1 => return Ok(Ok(plan)),
            Source::Plan(name, _) => {
                bail!("{name} is a plan; expected it alone, or topology files only")
            }
            Source::Topology(machine) => machines.push(machine),
        }
    }
    Ok(Err(machines))
}

/// The machines of the job in host order, each with how many in a row, edited as the arguments say.
pub fn hosts(
    machines: Vec<Machine>,
    arguments: &JobArguments,
    output: &mut Output,
) -> Result<Vec<(Machine, u32)>> {
    if machines.len() > 1 && arguments.hosts > 1 {
        bail!(
            "--hosts counts copies of one machine; with several files, name each file as often as it occurs"
        );
    }
    let alone = machines.len() == 1 && arguments.hosts == 1;
    let mut hosts = Vec::new();
    for mut machine in machines {
        if let Some(list) = &arguments.gpus {
            some_gpus(&mut machine, list)?;
        }
        let recorded = machine.recorded_hosts();
        if recorded > 1 {
            if !alone {
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
    edits::apply(hosts, &arguments.edits.all())
}

/// Leaves a machine only the GPUs of a list.
fn some_gpus(machine: &mut Machine, list: &str) -> Result<()> {
    let document = &machine.document;
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
    if devices.len() < there.len() {
        machine.document = with_gpus(document, &devices);
        machine.edits.push(format!("--gpus {list}"));
    }
    Ok(())
}

/// Makes one machine of hosts that share an NVLink domain.
fn join_domain(
    hosts: Vec<(Machine, u32)>,
    settings: &Settings,
    output: &mut Output,
) -> Result<Vec<(Machine, u32)>> {
    let is_recorded = |(machine, _): &(Machine, u32)| machine.recorded_hosts() > 1;
    if hosts.first().is_some_and(is_recorded) {
        return Ok(hosts);
    }
    if !settings.allow_nvlink_domains() {
        output.warnings.push(
            "--nvlink-domain: the settings forbid it (NCCL_MNNVL_ENABLE=0, or P2P switched off without \
             NCCL_MNNVL_ENABLE=1), so the network joins the hosts"
                .to_owned(),
        );
        return Ok(hosts);
    }
    let count: u64 = hosts.iter().map(|(_, copies)| u64::from(*copies)).sum();
    if count > MOST_DOMAIN_HOSTS {
        bail!(
            "{count} hosts in one NVLink domain; NCCL's limit is {MOST_DOMAIN_HOSTS} GPUs (without --nvlink-domain \
             the network joins the hosts)"
        );
    }
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
    let edits = hosts
        .iter()
        .flat_map(|(machine, _)| machine.edits.clone())
        .collect();
    let machine = Machine {
        name,
        document,
        edits,
    };
    Ok(vec![(machine, 1)])
}

fn read_graph_file(file: &str, output: &mut Output) -> Result<GraphFile> {
    let cannot = || format!("cannot read NCCL_GRAPH_FILE={file} (NCCL refuses to start then)");
    let text = files::read_text(Path::new(file), GRAPH_FILE_LIMIT).with_context(cannot)?;
    let graphs = GraphFile::parse(file, &text)?;
    output
        .warnings
        .extend(graphs.warnings().iter().map(ToString::to_string));
    Ok(graphs)
}
