//! The names of nodes: GPU0, NET3, CPU1, and bus ids for the rest.

use topology::{BusId, LinkId, LinkType, NodeData, NodeId, NodeType, System};

/// The names of a system's nodes. A physical device has the name of its first rank.
pub(super) struct Names<'a> {
    system: &'a System,
    names: Vec<String>,
}

impl<'a> Names<'a> {
    pub(super) fn new(system: &'a System) -> Self {
        let mut names: Vec<String> = Vec::with_capacity(system.node_count());
        for index in 0..system.node_count() {
            let node = rank_on(system, NodeId(index as u32));
            let plain = plain(system, node);
            let is_own = node.index() == index;
            let taken = is_own && names.contains(&plain);
            names.push(if taken {
                format!("{plain}({:x})", system.node(node).id.0)
            } else {
                plain
            });
        }
        Self { system, names }
    }

    pub(super) fn of(&self, node: NodeId) -> &str {
        &self.names[node.index()]
    }

    /// Whether a link only connects a rank with its device.
    pub(super) fn is_inside(&self, link: LinkId) -> bool {
        let (from, to) = self.system.ends(link);
        self.system.link(link).kind == LinkType::Loc && self.of(from) == self.of(to)
    }
}

/// The first rank on a device; any other node unchanged.
fn rank_on(system: &System, node: NodeId) -> NodeId {
    if system.kind(node) != NodeType::Dev {
        return node;
    }
    let mut targets = system.links(node).map(|link| system.target(link));
    targets
        .find(|target| system.kind(*target) == NodeType::Gpu)
        .unwrap_or(node)
}

fn plain(system: &System, node: NodeId) -> String {
    let id = system.node(node).id.local();
    match &system.node(node).data {
        NodeData::Gpu(gpu) => format!("GPU{}", gpu.dev),
        NodeData::Dev(dev) => format!("DEV{}", dev.dev),
        NodeData::Net(net) => format!("NET{}", net.dev),
        // A NUMA node may be -1; ids have 56 bits.
        NodeData::Cpu(_) => format!("CPU{}", (id << 8).cast_signed() >> 8),
        NodeData::Gin { dev, .. } => format!("GIN{dev}"),
        NodeData::Rma { dev, .. } => format!("RMA{dev}"),
        NodeData::Nvs => "NVS".to_owned(),
        NodeData::Cxb => "CXB".to_owned(),
        NodeData::Pci { .. } => format!("PCI[{}]", BusId(id)),
        NodeData::Nic => format!("NIC[{}]", BusId(id)),
    }
}
