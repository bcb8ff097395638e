//! Machines as NCCL sees them.

use crate::JsonSchema;
use plan::{DecidingAssumption, Plan, PlannedMachine};
use planner::explain::{self, NodeNames};
use serde::Serialize;
use topology::edit::names::{Device, DeviceKind, Devices};
use topology::xml::{Document, c_int};
use topology::{BusId, NodeData, NodeId, NodeType, System};

use crate::names::{gpu_name, net_name, processors};
use crate::report::Report;

/// Bandwidth of a Mb/s of a port, GB/s.
const GBPS: f32 = 1.0 / 8000.0;

/// Machines as NCCL sees them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ShowReport {
    /// One for a topology file; those of a plan.
    machines: Vec<ShownMachine>,
    /// The assumptions that decide how a host is planned; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<DecidingAssumption>,
    /// The profile of NCCL's version; absent if a binary has judged it.
    #[serde(skip_serializing_if = "crate::head::are_judged")]
    pub profile: Option<String>,
}

/// A host, or the hosts of an NVLink domain.
#[derive(Debug, Serialize, JsonSchema)]
struct ShownMachine {
    /// Name of its file.
    name: String,
    /// The machine in one line.
    summary: String,
    /// Hosts of it.
    hosts: u32,
    /// Its parts; of a plan, GPUs and network ports only.
    devices: Vec<ShownDevice>,
    /// Links in one direction each; null for a machine of a plan, which holds none, and for a file
    /// of AMD's RCCL, from which NCCL builds no machine.
    links: Option<Vec<ShownLink>>,
}

/// A part of a machine.
#[derive(Debug, Default, Serialize, JsonSchema)]
struct ShownDevice {
    /// Name as on pages: `GPU0`, in an NVLink domain `host0/GPU0`.
    label: String,
    /// NCCL's name of the kind.
    kind: &'static str,
    /// Host within the NVLink domain.
    host: u32,
    /// PCI bus id.
    bus_id: Option<String>,
    /// Rank of a GPU, within the machine.
    rank: Option<i32>,
    /// Compute capability × 10 of a GPU.
    sm: Option<i32>,
    /// Name of a network port.
    name: Option<String>,
    /// Bandwidth of a network port, GB/s.
    bandwidth_gbps: Option<f32>,
    /// Whether a GPU or a port is capable of GPUDirect RDMA.
    gdr: Option<bool>,
    /// NUMA node of a CPU; of a GPU in a plan, that of the nearest CPU.
    numa: Option<i32>,
    /// Processors of a CPU, as ranges; of a GPU in a plan, those of the nearest CPU.
    processors: Option<String>,
}

/// A link in one direction.
#[derive(Debug, Serialize, JsonSchema)]
struct ShownLink {
    /// Index of the first device in `devices`.
    from: usize,
    /// Index of the second.
    to: usize,
    /// NCCL's name of the kind.
    kind: &'static str,
    /// Bandwidth, GB/s.
    bandwidth_gbps: f32,
}

impl Report for ShowReport {
    const FORMAT: &'static str = "topo-show";
    const VERSION: u32 = 1;
}

impl ShowReport {
    /// The machine of a topology file.
    pub fn of(name: &str, system: &System) -> Self {
        let names = NodeNames::new(system);
        let nodes = (0..system.node_count()).map(|node| NodeId(node as u32));
        let links = nodes.clone().flat_map(|node| system.links(node));
        let links = links.map(|link| {
            let ((from, to), data) = (system.ends(link), system.link(link));
            ShownLink {
                from: from.index(),
                to: to.index(),
                kind: data.kind.name(),
                bandwidth_gbps: data.bw,
            }
        });
        let machine = ShownMachine {
            name: name.to_owned(),
            summary: explain::machine(system),
            hosts: system.hosts().len().max(1) as u32,
            devices: nodes.map(|node| device(system, &names, node)).collect(),
            links: Some(links.collect()),
        };
        Self {
            machines: vec![machine],
            assumptions: Vec::new(),
            profile: None,
        }
    }

    /// A file of AMD's RCCL.
    pub fn of_rccl(name: &str, document: &Document) -> Self {
        let devices = Devices::of(document);
        let shown = devices.all.iter().map(|device| of_file(document, device));
        let machine = ShownMachine {
            name: name.to_owned(),
            summary: "a topology of AMD's RCCL".to_owned(),
            hosts: devices.hosts.max(1),
            devices: shown.collect(),
            links: None,
        };
        Self {
            machines: vec![machine],
            assumptions: Vec::new(),
            profile: None,
        }
    }

    /// The machines of a plan.
    pub fn of_plan(plan: &Plan) -> Self {
        Self {
            machines: plan.machines.iter().map(of_planned).collect(),
            assumptions: Vec::new(),
            profile: Some(plan.profile.clone()),
        }
    }
}

fn device(system: &System, names: &NodeNames<'_>, node: NodeId) -> ShownDevice {
    let id = system.node(node).id;
    let mut device = ShownDevice {
        label: names.label(node).to_owned(),
        kind: system.kind(node).name(),
        host: id.system(),
        ..ShownDevice::default()
    };
    match &system.node(node).data {
        NodeData::Gpu(gpu) => {
            device.bus_id = Some(gpu.bus_id.to_string());
            device.rank = Some(gpu.rank);
            device.sm = Some(gpu.sm);
            device.gdr = Some(gpu.gdr);
        }
        NodeData::Net(net) => {
            device.name.clone_from(&net.name);
            device.bandwidth_gbps = Some(net.bw);
            device.gdr = Some(net.gdr);
        }
        NodeData::Cpu(cpu) => {
            device.numa = (cpu.numa >= 0).then_some(cpu.numa);
            device.processors = cpu.affinity.as_deref().and_then(processors);
        }
        NodeData::Dev(dev) => device.bus_id = Some(dev.bus_id.to_string()),
        NodeData::Pci { .. } => device.bus_id = Some(BusId(id.local()).to_string()),
        NodeData::Nic if id.local() != 0 => device.bus_id = Some(BusId(id.local()).to_string()),
        _ => {}
    }
    device
}

/// A device as its element says.
fn of_file(document: &Document, device: &Device) -> ShownDevice {
    let path = device.element.iter();
    let element = path.fold(&document.root, |element, index| &element.children[*index]);
    let number = |name: &str| element.get(name).map(c_int);
    let kind = match device.kind {
        DeviceKind::Cpu => NodeType::Cpu,
        DeviceKind::Switch => NodeType::Pci,
        DeviceKind::Gpu => NodeType::Gpu,
        DeviceKind::Adapter => NodeType::Nic,
        DeviceKind::Port => NodeType::Net,
        DeviceKind::NvSwitch => NodeType::Nvs,
    };
    ShownDevice {
        label: device.label.clone(),
        kind: kind.name(),
        host: device.host,
        bus_id: device.bus_id.map(|bus_id| bus_id.to_string()),
        rank: number("rank"),
        name: element.get("name").map(str::to_owned),
        bandwidth_gbps: number("speed").map(|speed| speed as f32 * GBPS),
        gdr: number("gdr").map(|gdr| gdr != 0),
        numa: number("numaid").filter(|numa| *numa >= 0),
        processors: element.get("affinity").and_then(processors),
        ..ShownDevice::default()
    }
}

fn of_planned(machine: &PlannedMachine) -> ShownMachine {
    let gpus = machine.gpus.iter().map(|gpu| ShownDevice {
        label: gpu_name(machine, gpu.rank),
        kind: topology::NodeType::Gpu.name(),
        host: gpu.host,
        bus_id: Some(gpu.bus_id.clone()),
        rank: Some(gpu.rank as i32),
        sm: Some(gpu.sm),
        gdr: Some(gpu.gdr),
        numa: gpu.numa,
        processors: gpu.cpu_affinity.as_deref().and_then(processors),
        ..ShownDevice::default()
    });
    let nics = machine.nics.iter().map(|nic| ShownDevice {
        label: net_name(machine, nic.id),
        kind: topology::NodeType::Net.name(),
        host: nic.host,
        bus_id: nic.bus_id.clone(),
        name: nic.name.clone(),
        bandwidth_gbps: Some(nic.speed),
        gdr: Some(nic.gdr),
        ..ShownDevice::default()
    });
    ShownMachine {
        name: machine.name.clone(),
        summary: machine.summary.clone(),
        hosts: machine.hosts,
        devices: gpus.chain(nics).collect(),
        links: None,
    }
}
