//! The load of a search's channels on the links of a machine.

use plan::{Graph, GraphChannel, Pattern};
use planner::Routing;
use topology::{NodeId, NodeType, System};

/// One hop of a channel: from a GPU or port to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// Where it begins.
    pub from: NodeId,
    /// Where it ends.
    pub to: NodeId,
}

/// The hops of a channel on its host, in order: from the port where it enters, along the GPUs, to
/// the port where it leaves. A ring of one host returns to its first GPU. A channel of NVLS has its
/// head only, and so no hop between GPUs.
pub fn hops(system: &System, pattern: Pattern, channel: &GraphChannel) -> Vec<Hop> {
    let gpus = channel.ranks.iter();
    let gpus: Vec<NodeId> = gpus.filter_map(|rank| system.gpu_of_rank(*rank)).collect();
    let port = |id: i64| {
        let mut ports = system.nodes(NodeType::Net);
        ports.find(|port| system.node(*port).id.0 == id as u64)
    };
    let [enters, leaves] = match channel.nets {
        Some(nets) => nets.map(port),
        None => [None; 2],
    };
    // The GPU from which the channel leaves.
    let last = match pattern {
        Pattern::Ring => gpus.last(),
        Pattern::BalancedTree | Pattern::SplitTree => gpus.get(1).or(gpus.first()),
        Pattern::Tree | Pattern::Nvls | Pattern::CollnetDirect => gpus.first(),
    };
    let mut hops = Vec::new();
    if let (Some(from), Some(to)) = (enters, gpus.first()) {
        hops.push(Hop { from, to: *to });
    }
    hops.extend(gpus.windows(2).map(|pair| Hop {
        from: pair[0],
        to: pair[1],
    }));
    if let (Some(from), Some(to)) = (last, leaves) {
        hops.push(Hop { from: *from, to });
    } else if let (Pattern::Ring, None, [first, .., last]) = (pattern, channel.nets, &gpus[..]) {
        hops.push(Hop {
            from: *last,
            to: *first,
        });
    }
    hops
}

/// The load of every link by all channels of a graph, GB/s, by the link's number. Channels inside
/// the host carry `bw_intra`, to the network `bw_inter`.
pub fn loads(routing: &Routing, graph: &Graph) -> Vec<f32> {
    let system = routing.system();
    let mut loads = vec![0.0; system.link_count()];
    for channel in &graph.channels {
        for hop in hops(system, graph.pattern, channel) {
            let is_port = |node| system.kind(node) == NodeType::Net;
            let bw = match is_port(hop.from) || is_port(hop.to) {
                true => graph.bw_inter,
                false => graph.bw_intra,
            };
            // Paths from ports are those to ports, in the other direction.
            match is_port(hop.from) {
                false => {
                    for link in routing.table().path(hop.from, hop.to).hops {
                        loads[link.index()] += bw;
                    }
                }
                true => {
                    for link in routing.table().path(hop.to, hop.from).hops {
                        let (from, to) = system.ends(*link);
                        if let Some(back) = system.link_between(to, from, system.link(*link).kind) {
                            loads[back.index()] += bw;
                        }
                    }
                }
            }
        }
    }
    loads
}
