//! Names of the parts of a machine.

use topology::{BusId, NodeData, NodeId, NodeType, System};

/// The names of a system's nodes, as people write them.
#[derive(Debug)]
pub struct NodeNames<'a> {
    system: &'a System,
    labels: Vec<String>,
}

impl<'a> NodeNames<'a> {
    /// Names every node.
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
                let same = |other: &&NodeId| {
                    system.gpu(**other).is_some_and(|data| data.dev == gpu.dev)
                        && system.node(**other).id.system() == id.system()
                };
                let sharers: Vec<NodeId> = system.nodes(NodeType::Gpu).collect();
                let sharers: Vec<&NodeId> = sharers.iter().filter(same).collect();
                match sharers.len() {
                    0 | 1 => format!("GPU{}", gpu.dev),
                    _ => {
                        let part = sharers
                            .iter()
                            .position(|other| **other == node)
                            .unwrap_or(0);
                        format!("GPU{}.{part}", gpu.dev)
                    }
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

    /// The system whose nodes are named.
    pub const fn system(&self) -> &'a System {
        self.system
    }

    /// Returns the name of a node: `GPU3`, `NIC0`, `PCI 0000:15:01.0`.
    pub fn label(&self, node: NodeId) -> &str {
        &self.labels[node.index()]
    }

    /// Returns the name of a node without its host.
    pub fn plain(&self, node: NodeId) -> &str {
        let label = self.label(node);
        label.split_once('/').map_or(label, |(_, plain)| plain)
    }

    /// Returns the name of a node with a port's name or a GPU's bus id.
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
}
