//! What the parts of a machine are called, and which part a name means.

use anyhow::{Result, bail};
use topology::{BusId, NodeData, NodeId, NodeType, System};

use crate::numbers::ranges;
use crate::suggest;

/// Most names that are offered instead of an unknown one.
const OFFERED: usize = 3;

/// The names of a system's nodes, as people write them.
#[derive(Debug)]
pub struct Names<'a> {
    system: &'a System,
    labels: Vec<String>,
}

impl<'a> Names<'a> {
    pub fn new(system: &'a System) -> Self {
        let mut names = Self {
            system,
            labels: Vec::with_capacity(system.node_count()),
        };
        names.labels = (0..system.node_count())
            .map(|node| names.make(NodeId(node as u32)))
            .collect();
        names
    }

    fn make(&self, node: NodeId) -> String {
        let system = self.system;
        let id = system.node(node).id;
        let own = match &system.node(node).data {
            NodeData::Gpu(gpu) => {
                let sharers = system.nodes(NodeType::Gpu).filter(|other| {
                    system.gpu(*other).is_some_and(|data| data.dev == gpu.dev)
                        && system.node(*other).id.system() == id.system()
                });
                let sharers: Vec<NodeId> = sharers.collect();
                let part = sharers.iter().position(|other| *other == node);
                match part.filter(|_| sharers.len() > 1) {
                    None => format!("GPU{}", gpu.dev),
                    Some(part) => format!("GPU{}.{part}", gpu.dev),
                }
            }
            NodeData::Dev(dev) => format!("GPU{}", dev.dev),
            NodeData::Pci { .. } => format!("PCI {}", BusId(id.local())),
            NodeData::Nvs => "NVSwitch".to_owned(),
            NodeData::Cpu(cpu) => format!("CPU{}", cpu.numa),
            NodeData::Nic if id.local() == 0 => "adapter".to_owned(),
            NodeData::Nic => format!("adapter {}", BusId(id.local())),
            NodeData::Net(net) => format!("NIC{}", net.dev),
            NodeData::Gin { dev, .. } => format!("GIN{dev}"),
            NodeData::Rma { dev, .. } => format!("RMA{dev}"),
            NodeData::Cxb => "C2C port".to_owned(),
        };
        if system.hosts().len() > 1 && system.kind(node) != NodeType::Nvs {
            return format!("host{}/{own}", id.system());
        }
        own
    }

    pub fn label(&self, node: NodeId) -> &str {
        &self.labels[node.index()]
    }

    /// The label with a port's name or a GPU's bus id.
    pub fn full(&self, node: NodeId) -> String {
        let label = self.label(node);
        match &self.system.node(node).data {
            NodeData::Gpu(gpu) => format!("{label} ({})", gpu.bus_id),
            NodeData::Net(net) => net
                .name
                .as_ref()
                .map_or_else(|| label.to_owned(), |name| format!("{label} ({name})")),
            _ => label.to_owned(),
        }
    }

    pub fn find(&self, machine: &str, text: &str) -> Result<NodeId> {
        let ends = [NodeType::Gpu, NodeType::Net, NodeType::Cpu, NodeType::Nvs];
        let ends: Vec<NodeId> = ends
            .iter()
            .flat_map(|kind| self.system.nodes(*kind))
            .collect();
        let named = |node: &NodeId| {
            self.aliases(*node)
                .iter()
                .any(|alias| alias.eq_ignore_ascii_case(text))
        };
        if let Some(node) = ends.iter().find(|node| named(node)) {
            return Ok(*node);
        }
        if let Some(node) = self.find_bus_id(text) {
            return Ok(node);
        }
        let aliases: Vec<String> = ends.iter().flat_map(|node| self.aliases(*node)).collect();
        let near = suggest::nearest(text, aliases.iter().map(String::as_str), OFFERED);
        bail!(
            "{machine} has no device `{text}`{} It has {}",
            if near.is_empty() {
                ".".to_owned()
            } else {
                suggest::question(&near)
            },
            self.overview()
        );
    }

    fn aliases(&self, node: NodeId) -> Vec<String> {
        let label = self.label(node);
        let plain = label.rsplit('/').next().unwrap_or(label);
        let mut aliases = vec![label.to_owned()];
        if plain != label {
            aliases.push(plain.to_owned());
        }
        if let Some(net) = self.system.net(node) {
            aliases.push(format!("NET{}", net.dev));
            aliases.extend(net.name.clone());
        }
        aliases
    }

    fn find_bus_id(&self, text: &str) -> Option<NodeId> {
        let with_domain = format!("0000:{text}");
        let text = [text, &with_domain]
            .into_iter()
            .find(|text| BusId::is_well_formed(text))?;
        let wanted = BusId::parse(text);
        let local = |node: NodeId| self.system.node(node).id.local();
        if let Some((gpu, _)) = self.system.gpus().find(|(_, gpu)| gpu.bus_id == wanted) {
            return Some(gpu);
        }
        let adapter = self
            .system
            .nodes(NodeType::Nic)
            .find(|nic| local(*nic) == wanted.0);
        if let Some(adapter) = adapter {
            let mut around = self
                .system
                .links(adapter)
                .map(|link| self.system.target(link));
            return around.find(|node| self.system.kind(*node) == NodeType::Net);
        }
        self.system
            .nodes(NodeType::Pci)
            .find(|switch| local(*switch) == wanted.0)
    }

    fn overview(&self) -> String {
        let numbers = |numbers: Vec<i32>, word: &str| {
            (!numbers.is_empty()).then(|| format!("{word}{}", ranges(&numbers, ",")))
        };
        let lists = [
            numbers(self.system.gpus().map(|(_, gpu)| gpu.dev).collect(), "GPU"),
            numbers(self.system.nets().map(|(_, net)| net.dev).collect(), "NIC"),
            numbers(self.system.cpus().map(|(_, cpu)| cpu.numa).collect(), "CPU"),
        ];
        lists.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}
