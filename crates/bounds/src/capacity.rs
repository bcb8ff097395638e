//! The capacity graph of a planned job.
//!
//! Vertices are ranks, NVSwitches, PCI switches, CPUs, C2C ports, NICs, network ports and the
//! network. A rank alone on its device is one vertex with it. GPUs without a rank are absent, as in
//! NCCL. A CPU and the network forward between any two of their links; a PCI switch makes the turns
//! of the [link set](LinkSet).

use std::collections::{BTreeMap, BTreeSet};

use plan::GraphKind;
use plan::certificate::{CapacityGraph, DirectedLink, HostClass, LinkSet, UNITS};
use planner::{MachinePlan, Planned, View};
use topology::{BusId, LinkType, NodeId, NodeType, PathType, System};

use crate::draft::{Draft, Key};
use crate::turns::Ports;

/// The network's number until the number of vertices is known.
const NETWORK: u32 = u32::MAX;

/// The name of the network.
const NETWORK_NAME: &str = "network";

/// Makes the graph of a job: each distinct machine once, and the network if NCCL uses it.
pub fn capacity_graph(planned: &Planned, links: LinkSet) -> CapacityGraph {
    let mut counts = vec![0u32; planned.machines().len()];
    for (machine, count) in &planned.job.hosts.runs {
        counts[*machine] = counts[*machine].saturating_add(*count);
    }
    let machines = planned.machines();
    let networked =
        |machine: &MachinePlan| machine.nodes.iter().any(|node| uses_network(&node.view));
    CapacityGraph {
        network: match machines.iter().any(networked) {
            true => vec![NETWORK_NAME.to_owned()],
            false => Vec::new(),
        },
        hosts: machines
            .iter()
            .zip(counts)
            .map(|(machine, count)| host_class(machine, count, links))
            .collect(),
    }
}

/// The same job with a network of rails: a host's first port reaches the first ports of other hosts
/// only, and so on. Hosts with fewer ports use the first rails.
pub fn on_rails(mut graph: CapacityGraph) -> CapacityGraph {
    let mut most = 0;
    for class in &mut graph.hosts {
        let network = class.vertices.len() as u32;
        let mut ports: Vec<u32> = Vec::new();
        for link in class.links.iter().filter(|link| link.to >= network) {
            ports.push(link.from);
        }
        ports.sort_unstable();
        ports.dedup();
        for link in &mut class.links {
            let rail = |port: u32| ports.binary_search(&port).unwrap_or(0) as u32;
            if link.to >= network {
                link.to = network + rail(link.from);
            } else if link.from >= network {
                link.from = network + rail(link.to);
            }
        }
        most = ports.len().max(most);
    }
    graph.network = (0..most).map(|rail| format!("rail {rail}")).collect();
    graph
}

/// Bandwidth in units of 0.1 MB/s. The noise of 32-bit products, as in 18 × 20.6, is below half a
/// unit.
fn units(bandwidth: f32) -> u64 {
    (f64::from(bandwidth) * f64::from(UNITS)).round().max(0.0) as u64
}

/// Whether NCCL uses the network: between hosts, or where it is faster between ranks of a host.
fn uses_network(view: &View) -> bool {
    let (system, table) = (view.system(), view.routing().table());
    let faster = |from: NodeId| {
        let mut others = system.nodes(NodeType::Gpu);
        others.any(|to| from != to && table.kind(from, to) == PathType::Net)
    };
    view.inter || system.nodes(NodeType::Gpu).any(faster)
}

fn host_class(machine: &MachinePlan, count: u32, links: LinkSet) -> HostClass {
    let mut draft = Draft::default();
    let views: Vec<&View> = machine.nodes.iter().map(|node| &node.view).collect();
    let ranks_on = ranks_on_devices(&views);
    let mut ranks: Vec<(i32, &View, NodeId)> = views
        .iter()
        .flat_map(|view| {
            view.system()
                .gpus()
                .map(|(node, gpu)| (gpu.rank, *view, node))
        })
        .collect();
    ranks.sort_unstable_by_key(|(rank, _, _)| *rank);
    // Ranks have the first numbers, in their order.
    for (rank, view, node) in ranks {
        let name = rank_name(view.system(), node, &ranks_on);
        let vertex = draft.vertex(name);
        draft.vertices[vertex as usize].rank = true;
        draft.known.insert(Key::Rank(rank), vertex);
    }
    let mut used = Usable {
        all: links == LinkSet::All,
        ..Usable::default()
    };
    if !used.all {
        views.iter().for_each(|view| used.add_paths(view));
        let with_nvls = machine.nodes.iter().filter(|node| {
            let nvls = node.graph(GraphKind::Nvls);
            nvls.is_some_and(|graph| !graph.channels.is_empty())
        });
        with_nvls.for_each(|node| used.add_nvswitches(node.view.system()));
    }
    for view in &views {
        add_links(&mut draft, view, &used, &ranks_on);
    }
    if links == LinkSet::Rules {
        allow_turns(&mut draft, &views, &used, &ranks_on);
    }
    finish(draft, machine.name.clone(), count)
}

/// The ranks on each device, by its position.
fn ranks_on_devices(views: &[&View]) -> BTreeMap<usize, BTreeSet<i32>> {
    let mut ranks: BTreeMap<usize, BTreeSet<i32>> = BTreeMap::new();
    for system in views.iter().map(|view| view.system()) {
        for (node, gpu) in system.gpus() {
            if let Some(device) = system.device_of(node) {
                let position = system.position(device);
                ranks.entry(position).or_default().insert(gpu.rank);
            }
        }
    }
    ranks
}

type RanksOn = BTreeMap<usize, BTreeSet<i32>>;

/// `host1/` in a machine of several hosts.
fn host_prefix(system: &System, node: NodeId) -> String {
    match system.hosts().len() {
        0 | 1 => String::new(),
        _ => format!("host{}/", system.node(node).id.system()),
    }
}

fn rank_name(system: &System, node: NodeId, ranks_on: &RanksOn) -> String {
    let prefix = host_prefix(system, node);
    let Some(gpu) = system.gpu(node) else {
        return prefix;
    };
    let device = system.device_of(node).map(|it| system.position(it));
    let alone = device.is_none_or(|it| ranks_on.get(&it).is_none_or(|ranks| ranks.len() == 1));
    match alone {
        true => format!("{prefix}GPU{}", gpu.dev),
        false => format!("{prefix}GPU{} rank {}", gpu.dev, gpu.rank),
    }
}

/// The kind of a node in the graph; `None` for devices without a rank and ports that NCCL's
/// collectives do not use.
fn key(system: &System, node: NodeId, ranks_on: &RanksOn) -> Option<Key> {
    let kind = system.kind(node);
    let position = system.position(node);
    match kind {
        NodeType::Gpu => Some(Key::Rank(system.gpu(node)?.rank)),
        NodeType::Dev => {
            let ranks = ranks_on.get(&position)?;
            match (ranks.len(), ranks.first()) {
                (1, Some(rank)) => Some(Key::Rank(*rank)),
                _ => Some(Key::Node(kind, position)),
            }
        }
        NodeType::Net => {
            let net = system.net(node)?;
            Some(Key::Port(system.node(node).id.system(), net.asic, net.port))
        }
        NodeType::Gin | NodeType::Rma => None,
        _ => Some(Key::Node(kind, position)),
    }
}

fn vertex_name(system: &System, node: NodeId) -> String {
    let data = system.node(node);
    let name = match system.kind(node) {
        NodeType::Nvs => "NVSwitch".to_owned(),
        NodeType::Cpu => format!("CPU{}", system.cpu(node).map_or(-1, |cpu| cpu.numa)),
        NodeType::Dev => format!("GPU{}", system.dev(node).map_or(-1, |dev| dev.dev)),
        NodeType::Net => format!("NIC{}", system.net(node).map_or(-1, |net| net.dev)),
        NodeType::Pci => format!("PCI switch {}", BusId(data.id.local())),
        NodeType::Nic => format!("adapter {}", BusId(data.id.local())),
        kind => format!("{kind} {:#x}", data.id.local()),
    };
    host_prefix(system, node) + &name
}

/// The number of a node's vertex, which is made if it is new.
fn number(draft: &mut Draft, system: &System, node: NodeId, ranks_on: &RanksOn) -> Option<u32> {
    let key = key(system, node, ranks_on)?;
    if let Some(known) = draft.known.get(&key) {
        return Some(*known);
    }
    let vertex = draft.vertex(vertex_name(system, node));
    draft.known.insert(key, vertex);
    Some(vertex)
}

/// Links and turns that may be used, by positions that all views share.
#[derive(Debug, Default)]
struct Usable {
    all: bool,
    /// Ends of links: type and position, ranks by their number.
    links: BTreeSet<(End, End)>,
    turns: BTreeSet<(End, End, End)>,
}

type End = (NodeType, i64);

fn end(system: &System, node: NodeId) -> End {
    match system.gpu(node) {
        Some(gpu) => (NodeType::Gpu, i64::from(gpu.rank)),
        None => (system.kind(node), system.position(node) as i64),
    }
}

impl Usable {
    /// The links and turns of all paths between ranks and, if the job uses the network, between
    /// ranks and ports.
    fn add_paths(&mut self, view: &View) {
        let system = view.system();
        let networked = uses_network(view);
        for gpu in system.nodes(NodeType::Gpu) {
            for other in system.nodes(NodeType::Gpu).filter(|other| *other != gpu) {
                self.add_path(view, gpu, other);
            }
            for net in system.nodes(NodeType::Net).filter(|_| networked) {
                self.add_path(view, gpu, net);
                self.add_path(view, net, gpu);
            }
        }
    }

    /// The links of NVSwitches, which NVLS uses whatever the paths between ranks are.
    fn add_nvswitches(&mut self, system: &System) {
        for (from, to, _) in every_link(system) {
            if [from, to]
                .map(|node| system.kind(node))
                .contains(&NodeType::Nvs)
            {
                self.links.insert((end(system, from), end(system, to)));
            }
        }
    }

    fn add_path(&mut self, view: &View, from: NodeId, to: NodeId) {
        let system = view.system();
        let path = view.routing().table().path(from, to);
        if path.kind >= PathType::Net {
            return;
        }
        let mut before: Option<End> = None;
        for hop in path.hops {
            let (from, to) = system.ends(*hop);
            let (from, to) = (end(system, from), end(system, to));
            self.links.insert((from, to));
            if let Some(before) = before.filter(|_| from.0 == NodeType::Pci) {
                self.turns.insert((before, from, to));
            }
            before = Some(from);
        }
    }

    fn has(&self, from: End, to: End) -> bool {
        self.all || self.links.contains(&(from, to))
    }
}

/// Adds the links of a view that may be used. Parallel links are added up, and links that several
/// views have are counted once.
fn add_links(draft: &mut Draft, view: &View, used: &Usable, ranks_on: &RanksOn) {
    let system = view.system();
    let networked = uses_network(view);
    let mut own: BTreeMap<(u32, u32, String), u64> = BTreeMap::new();
    for (from_node, to_node, link) in every_link(system) {
        let is_port = [from_node, to_node].map(|node| system.kind(node) == NodeType::Net);
        if is_port.contains(&true) && !networked {
            continue;
        }
        if !used.has(end(system, from_node), end(system, to_node)) {
            continue;
        }
        let ends = [from_node, to_node].map(|node| number(draft, system, node, ranks_on));
        let [Some(from), Some(to)] = ends else {
            continue;
        };
        if from != to {
            *own.entry((from, to, link.kind.name().to_owned()))
                .or_default() += units(link.bw);
        }
        for (node, vertex) in [(from_node, from), (to_node, to)] {
            let Some(net) = system.net(node) else {
                continue;
            };
            let name = LinkType::Net.name().to_owned();
            for ends in [(vertex, NETWORK, name.clone()), (NETWORK, vertex, name)] {
                let capacity = draft.links.entry(ends).or_default();
                *capacity = units(net.bw).max(*capacity);
            }
        }
    }
    for (ends, capacity) in own {
        let known = draft.links.entry(ends).or_default();
        *known = capacity.max(*known);
    }
}

fn every_link(system: &System) -> impl Iterator<Item = (NodeId, NodeId, topology::Link)> + '_ {
    let nodes = NodeType::ALL
        .into_iter()
        .flat_map(|kind| system.nodes(kind));
    nodes.flat_map(move |node| {
        let links = system.links(node);
        links.map(move |link| (node, system.target(link), system.link(link)))
    })
}

/// Splits the PCI switches of which only some turns are used.
fn allow_turns(draft: &mut Draft, views: &[&View], used: &Usable, ranks_on: &RanksOn) {
    let mut switches: BTreeMap<u32, BTreeSet<(u32, u32)>> = BTreeMap::new();
    for view in views {
        let system = view.system();
        let mut vertex: BTreeMap<End, u32> = BTreeMap::new();
        for node in NodeType::ALL
            .into_iter()
            .flat_map(|kind| system.nodes(kind))
        {
            let known = key(system, node, ranks_on).and_then(|key| draft.known.get(&key));
            if let Some(known) = known {
                vertex.insert(end(system, node), *known);
            }
        }
        for (from, switch, to) in &used.turns {
            if let (Some(from), Some(switch), Some(to)) =
                (vertex.get(from), vertex.get(switch), vertex.get(to))
            {
                switches.entry(*switch).or_default().insert((*from, *to));
            }
        }
    }
    let mut ports = Ports::default();
    for (switch, turns) in switches {
        ports.split(draft, switch, &turns);
    }
    ports.apply(draft);
}

fn finish(draft: Draft, name: String, count: u32) -> HostClass {
    let vertices = draft.vertices.len() as u32;
    let links = draft
        .links
        .into_iter()
        .filter(|(_, capacity)| *capacity > 0);
    let number = |vertex: u32| match vertex {
        NETWORK => vertices,
        vertex => vertex,
    };
    HostClass {
        name,
        count,
        links: links
            .map(|((from, to, kind), capacity)| DirectedLink {
                from: number(from),
                to: number(to),
                kind,
                capacity,
            })
            .collect(),
        vertices: draft.vertices,
    }
}
