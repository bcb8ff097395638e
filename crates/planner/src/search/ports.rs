//! The network ports as the search walks them.

use topology::{NodeId, NodeType, PathType};

use crate::routing::Routing;

/// A port.
#[derive(Debug, Clone)]
pub(super) struct SearchPort {
    pub node: NodeId,
    /// The first port with the same id; look-ups by id find that one.
    pub canonical: u32,
    pub bw: f32,
    pub latency: f32,
    pub coll: bool,
    /// Ports with the same guid and port number share their bandwidth.
    pub shared: Vec<u32>,
    pub group: u32,
    pub local_gpu: Option<u32>,
    pub rail: Option<i32>,
    pub plane: Option<i32>,
    pub host: u32,
    pub port: i32,
    pub pci_function: String,
}

/// The positions of the GPUs closest to a port.
pub(super) fn closest_gpus(routing: &Routing, port: NodeId) -> Vec<u32> {
    let nearest = routing.nearest(port, NodeType::Gpu);
    if nearest.kind == PathType::Dis {
        return Vec::new();
    }
    nearest
        .nodes
        .iter()
        .map(|gpu| routing.system().position(*gpu) as u32)
        .collect()
}

/// All ports, in node order.
pub(super) fn ports(routing: &Routing, nodes: &[NodeId]) -> Vec<SearchPort> {
    let system = routing.system();
    let nets: Vec<_> = system.nets().collect();
    nets.iter()
        .enumerate()
        .map(|(index, (node, net))| {
            let id = system.node(*node).id;
            let same_port =
                |other: &&topology::Net| other.asic == net.asic && other.port == net.port;
            let shared: Vec<u32> = (0..nets.len())
                .filter(|other| same_port(&nets[*other].1))
                .map(|other| other as u32)
                .collect();
            let canonical = nodes
                .iter()
                .position(|other| system.node(*other).id == id)
                .unwrap_or(index);
            let rails = routing.rail(*node);
            SearchPort {
                node: *node,
                canonical: canonical as u32,
                bw: net.bw,
                latency: net.latency,
                coll: net.coll,
                group: shared[0],
                shared,
                local_gpu: routing
                    .local_gpu(*node)
                    .map(|gpu| system.position(gpu) as u32),
                rail: rails.rail,
                plane: rails.plane,
                host: id.system(),
                port: net.port,
                pci_function: net.pci_function.clone(),
            }
        })
        .collect()
}
