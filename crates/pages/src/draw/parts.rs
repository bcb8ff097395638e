//! A machine as parts that hang below each other: processors, switches, adapters, GPUs and ports.

use planner::explain::{NodeNames, processor};
use topology::{LinkId, LinkType, NodeData, NodeId, NodeType, System};

use crate::draw::text::{gbps, shorten};

/// Longest label of a GPU or a port, characters; longer names end with an ellipsis.
const LONGEST_LABEL: usize = 18;

/// A part with an area of its own: a processor, a switch or an adapter with several ports.
#[derive(Debug, Clone)]
pub struct Part {
    /// Its node.
    pub node: NodeId,
    /// Its label, longest first; the first that fits is drawn.
    pub labels: Vec<String>,
    /// Parts below it.
    pub parts: Vec<Self>,
    /// Its GPUs.
    pub gpus: Vec<Leaf>,
    /// Its network ports.
    pub ports: Vec<Leaf>,
}

/// A GPU or a network port.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// Its node.
    pub node: NodeId,
    /// Its label.
    pub label: String,
    /// A second line: the rank of a GPU, the speed of a port.
    pub detail: String,
    /// Whether a link of its own leads to the processor (C2C, or NVLink on POWER).
    pub has_own_link: bool,
}

/// The parts of one host.
#[derive(Debug, Clone)]
pub struct Host {
    /// Its number in the system.
    pub number: u32,
    /// Its processors with all that hangs below them.
    pub cpus: Vec<Part>,
}

/// The hosts of a system with their parts. GPUs and ports that hang below no processor are left
/// out: NCCL refuses such machines.
pub fn hosts(system: &System, names: &NodeNames<'_>) -> Vec<Host> {
    let mut found = Finder {
        system,
        names,
        seen: vec![false; system.node_count()],
    };
    let numbers = 0..system.hosts().len().max(1) as u32;
    let host = |number| Host {
        number,
        cpus: found.cpus(number),
    };
    numbers.map(host).collect()
}

struct Finder<'a> {
    system: &'a System,
    names: &'a NodeNames<'a>,
    seen: Vec<bool>,
}

impl Finder<'_> {
    fn cpus(&mut self, host: u32) -> Vec<Part> {
        let cpus = self.system.nodes(NodeType::Cpu);
        let own = cpus.filter(|cpu| self.system.node(*cpu).id.system() == host);
        let own: Vec<NodeId> = own.collect();
        own.into_iter().map(|cpu| self.part(cpu)).collect()
    }

    fn part(&mut self, node: NodeId) -> Part {
        self.seen[node.index()] = true;
        let mut part = Part {
            node,
            labels: self.labels(node),
            parts: Vec::new(),
            gpus: Vec::new(),
            ports: Vec::new(),
        };
        self.fill(&mut part, node);
        part
    }

    /// Adds what hangs below a node. A device with one rank and an adapter with one port are one
    /// box.
    fn fill(&mut self, part: &mut Part, node: NodeId) {
        let system = self.system;
        for link in system.links(node) {
            let (to, kind) = (system.target(link), system.link(link).kind);
            let hangs = match system.kind(to) {
                NodeType::Pci | NodeType::Nic => kind == LinkType::Pci,
                NodeType::Dev | NodeType::Gpu => {
                    matches!(kind, LinkType::Pci | LinkType::Loc)
                        || system.kind(node) == NodeType::Cpu && is_own_link(kind)
                }
                NodeType::Net => kind == LinkType::Net,
                _ => false,
            };
            if !hangs || std::mem::replace(&mut self.seen[to.index()], true) {
                continue;
            }
            match system.kind(to) {
                NodeType::Gpu => part.gpus.push(self.leaf(to)),
                NodeType::Net => part.ports.push(self.leaf(to)),
                NodeType::Dev => self.fill(part, to),
                NodeType::Nic if self.ports_of(to) < 2 => self.fill(part, to),
                _ => part.parts.push(self.part(to)),
            }
        }
    }

    fn ports_of(&self, adapter: NodeId) -> usize {
        let links = self.system.links(adapter);
        let ports = links.filter(|link| {
            let to = self.system.target(*link);
            self.system.kind(to) == NodeType::Net
        });
        ports.count()
    }

    fn labels(&self, node: NodeId) -> Vec<String> {
        let name = self.names.plain(node).to_owned();
        match &self.system.node(node).data {
            NodeData::Cpu(cpu) => vec![format!("{name}  {}", processor(cpu)), name],
            NodeData::Pci { .. } => {
                let short = name.rsplit(' ').next().unwrap_or_default();
                let bus = short.split_once(':').map_or(short, |(_, bus)| bus);
                vec![format!("switch {short}"), bus.to_owned()]
            }
            _ => vec![name, "adapter".to_owned()],
        }
    }

    fn leaf(&self, node: NodeId) -> Leaf {
        let system = self.system;
        let name = self.names.plain(node);
        let (label, detail) = match &system.node(node).data {
            NodeData::Gpu(gpu) if gpu.rank >= 0 => (name.to_owned(), format!("rank {}", gpu.rank)),
            NodeData::Net(net) => {
                let label = net.name.clone().unwrap_or_else(|| name.to_owned());
                (label, format!("{} GB/s", gbps(net.bw)))
            }
            _ => (name.to_owned(), String::new()),
        };
        Leaf {
            node,
            label: shorten(&label, LONGEST_LABEL),
            detail,
            has_own_link: own_link(system, node).is_some(),
        }
    }
}

/// The link of a GPU, or of its device, to a processor beside PCI Express.
pub fn own_link(system: &System, gpu: NodeId) -> Option<LinkId> {
    let device = system.device_of(gpu);
    let nodes = [Some(gpu), device].into_iter().flatten();
    let mut links = nodes.flat_map(|node| system.links(node));
    links.find(|link| {
        let to = system.target(*link);
        system.kind(to) == NodeType::Cpu && is_own_link(system.link(*link).kind)
    })
}

/// Whether a link between a GPU and a processor is one beside PCI Express.
const fn is_own_link(kind: LinkType) -> bool {
    matches!(kind, LinkType::C2c | LinkType::Nvl)
}
