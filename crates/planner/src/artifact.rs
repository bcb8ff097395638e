//! The plan document, from what was decided for a job.

use std::sync::Arc;

use plan::{
    CostTable, Digest, EndPoint, Fingerprint, GpuGroup, Graph, GraphPaths, HostRun, MachineCpu,
    MachineGpu, MachineNic, NeighborPath, NodeParts, Plan, PlanContent, PlannedMachine, Producer,
    RequestSummary, Setting, neighbors,
};
use topology::{BusId, CpuArch, CpuModel, CpuVendor, NcclId, NodeId, NodeType, System};

use crate::cluster::MachinePlan;
use crate::connect::JobPlan;
use crate::error::Error;
use crate::host_plan::HostPlan;
use crate::job::EqualHosts;
use crate::settings::Settings;

/// The plan of a job. `hosts` are its machines as they were prepared.
///
/// # Errors
/// A file, a setting or a profile has values that no plan can hold.
pub(crate) fn plan(
    hosts: &[EqualHosts],
    job: &JobPlan,
    settings: &Settings,
    collnet: bool,
    costs: &CostTable,
) -> Result<Plan, Error> {
    let request = RequestSummary {
        hosts: job.layout().hosts(),
        nvlink_domain: job.hosts.machines.iter().any(MachinePlan::is_domain),
        collnet,
    };
    let deciding = settings.deciding().map(|(name, value)| Setting {
        name: name.to_owned(),
        value: value.to_owned(),
    });
    let deciding: Vec<Setting> = deciding.collect();
    let (machines, runs) = machines(job);
    let content = PlanContent {
        producer: Producer {
            name: "topo".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        profile: settings.rules.version().profile().to_owned(),
        fingerprint: fingerprint(hosts, job, settings, &deciding, &request),
        request,
        settings: deciding,
        hosts: runs,
        rank_order: job.hosts.order.clone(),
        common: Some(job.common().clone()),
        costs: Some(costs.clone()),
        forests: None,
        measured: None,
        assumptions: Vec::new(),
        machines,
    };
    Plan::with_expansion(content, Arc::clone(&job.expansion)).map_err(|error| match error {
        plan::Error::Inconsistent { at, problem } => Error::Contradiction { at, problem },
        error => Error::Plan(error),
    })
}

/// The digest of everything that a plan is made from.
fn fingerprint(
    hosts: &[EqualHosts],
    job: &JobPlan,
    settings: &Settings,
    deciding: &[Setting],
    request: &RequestSummary,
) -> Digest {
    let mut fingerprint = Fingerprint::new(settings.rules.version().profile());
    for hosts in hosts {
        let canonical = topology::xml::write(&hosts.document);
        fingerprint = fingerprint.topology(canonical.as_bytes(), hosts.count);
    }
    let graphs = settings.graphs.as_ref();
    let graphs = graphs.map(|graphs| format!("{graphs:?}"));
    let fingerprint = fingerprint
        .settings(deciding)
        .request(request)
        .part("graph-file", graphs.unwrap_or_default().as_bytes());
    match &job.hosts.order {
        Some(order) => fingerprint.part("rank-order", format!("{order:?}").as_bytes()),
        None => fingerprint,
    }
    .finish()
}

/// The machines of a job with what was found for each, and where they are in the job.
fn machines(job: &JobPlan) -> (Vec<PlannedMachine>, Vec<HostRun>) {
    let cluster = &job.hosts;
    let machines: Vec<PlannedMachine> = cluster
        .machines
        .iter()
        .zip(job.expansion.machines())
        .map(|(machine, parts)| describe(machine, parts))
        .collect();
    let mut first_rank = 0;
    let mut runs = Vec::new();
    for (machine, count) in &cluster.runs {
        runs.push(HostRun {
            machine: *machine as u32,
            count: *count,
            first_rank,
        });
        let gpus = machines
            .get(*machine)
            .map_or(0, |machine| machine.gpus.len());
        first_rank += gpus as u32 * count;
    }
    (machines, runs)
}

fn describe(machine: &MachinePlan, parts: &[NodeParts]) -> PlannedMachine {
    let mut gpus: Vec<MachineGpu> = machine.nodes.iter().flat_map(describe_gpus).collect();
    gpus.sort_by_key(|gpu| gpu.rank);
    let system = machine.nodes.first().map(|node| node.view.system());
    let cpu = system
        .and_then(|system| system.cpus().next())
        .map(|(_, cpu)| cpu);
    PlannedMachine {
        name: machine.name.clone(),
        summary: machine.summary.clone(),
        hosts: system.map_or(1, |system| system.hosts().len().max(1) as u32),
        cpu: MachineCpu {
            arch: cpu.map_or(CpuArch::Unknown, |cpu| cpu.arch),
            vendor: cpu.map_or(CpuVendor::Unknown, |cpu| cpu.vendor),
            model: cpu.map_or(CpuModel::Other, |cpu| cpu.model),
        },
        gpus,
        nics: system.map(describe_nics).unwrap_or_default(),
        groups: machine
            .nodes
            .iter()
            .zip(parts)
            .map(|(node, parts)| describe_group(node, parts))
            .collect(),
    }
}

fn describe_gpus(node: &HostPlan) -> Vec<MachineGpu> {
    let system = node.view.system();
    let near = |gpu| {
        node.view
            .routing()
            .local_cpu(gpu)
            .ok()
            .and_then(|cpu| system.cpu(cpu))
    };
    system
        .gpus()
        .map(|(id, gpu)| MachineGpu {
            rank: gpu.rank as u32,
            host: system.node(id).id.system(),
            dev: gpu.dev,
            bus_id: gpu.bus_id.to_string(),
            sm: gpu.sm,
            gdr: gpu.gdr,
            numa: near(id).map(|cpu| cpu.numa),
            cpu_affinity: near(id).and_then(|cpu| cpu.affinity.clone()),
        })
        .collect()
}

fn describe_nics(system: &System) -> Vec<MachineNic> {
    let mut nics: Vec<MachineNic> = Vec::new();
    for (id, net) in system.nets() {
        let nccl_id = system.node(id).id;
        // Of ports with equal numbers NCCL only ever finds the first.
        if nics.iter().any(|known| known.id == nccl_id.0 as i64) {
            continue;
        }
        let adapter = system
            .links(id)
            .map(|link| system.target(link))
            .find(|node| system.kind(*node) == NodeType::Nic);
        let bus_id = adapter
            .map(|nic| system.node(nic).id.local())
            .filter(|local| *local != 0);
        nics.push(MachineNic {
            id: nccl_id.0 as i64,
            host: nccl_id.system(),
            dev: net.dev,
            name: net.name.clone(),
            bus_id: bus_id.map(|local| BusId(local).to_string()),
            speed: net.bw,
            port: net.port,
            gdr: net.gdr,
        });
    }
    nics
}

fn describe_group(node: &HostPlan, parts: &NodeParts) -> GpuGroup {
    let system = node.view.system();
    GpuGroup {
        ranks: system.gpus().map(|(_, gpu)| gpu.rank).collect(),
        inter: node.view.inter,
        max_bw: node.view.max_bw,
        total_bw: node.view.total_bw,
        paths: node.graphs.iter().map(|graph| paths(node, graph)).collect(),
        graphs: node.graphs.clone(),
        trails: node.trails.clone(),
        transports: Some(parts.transports().clone()),
    }
}

fn paths(node: &HostPlan, graph: &Graph) -> GraphPaths {
    let system = node.view.system();
    let table = node.view.routing().table();
    let find = |end: EndPoint| -> Option<NodeId> {
        match end {
            EndPoint::Rank(rank) => system.gpu_of_rank(rank),
            EndPoint::Net(id) => system.find(NodeType::Net, NcclId(id as u64)),
        }
    };
    let hop = |(from, to): (EndPoint, EndPoint)| {
        let (a, b) = (find(from)?, find(to)?);
        Some(NeighborPath {
            from,
            to,
            path_type: table.kind(a, b),
            bw: table.bw(a, b),
        })
    };
    GraphPaths {
        kind: graph.kind,
        channels: graph
            .channels
            .iter()
            .map(|channel| {
                neighbors(graph.pattern, channel)
                    .into_iter()
                    .filter_map(hop)
                    .collect()
            })
            .collect(),
    }
}
