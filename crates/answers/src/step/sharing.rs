//! Links that the communicators of a group share, all of which call at the same time.
//!
//! Each communicator is planned as if it had the machine alone. The rings of those that begin on
//! the first host load its links together; a link that is loaded beyond its bandwidth slows all of
//! them by as much.

use std::collections::HashMap;

use draw::traffic::loads;
use plan::GraphKind;
use planner::Planned;
use topology::{LinkType, NcclId, NodeType};

/// A link of the first host, as the plans of all of its parts call it.
type Link = (NodeType, NcclId, NodeType, NcclId, LinkType);

/// The load of a link, GB/s.
#[derive(Debug, Default)]
struct Load {
    /// Of all communicators.
    all: f64,
    /// What the link carries: its bandwidth, or what NCCL puts on it for one communicator.
    capacity: f64,
}

/// How many times longer the bytes of a message take since others share their links: at least 1.
/// `plans` are those of the communicators that begin on the first host.
pub(super) fn sharing<'a>(plans: impl Iterator<Item = &'a Planned>) -> f64 {
    let mut loaded: HashMap<Link, Load> = HashMap::new();
    for planned in plans {
        let first = planned.machines().first().and_then(|it| it.nodes.first());
        let Some((host, ring)) = first.and_then(|it| Some((it, it.graph(GraphKind::Ring)?))) else {
            continue;
        };
        let routing = host.view.routing();
        let system = routing.system();
        let loads = loads(routing, ring);
        let nodes = NodeType::ALL
            .into_iter()
            .flat_map(|kind| system.nodes(kind));
        for link in nodes.flat_map(|node| system.links(node)) {
            let load = f64::from(loads[link.index()]);
            let (from, to) = system.ends(link);
            let name = |node| (system.kind(node), system.node(node).id);
            let ((from, from_id), (to, to_id)) = (name(from), name(to));
            if load <= 0.0 || from_id.system() > 0 || to_id.system() > 0 {
                continue;
            }
            let capacity = f64::from(system.link(link).bw).max(load);
            let key = (from, from_id, to, to_id, system.link(link).kind);
            let entry = loaded.entry(key).or_default();
            entry.all += load;
            entry.capacity = entry.capacity.max(capacity);
        }
    }
    let shares = loaded.values().map(|load| load.all / load.capacity);
    shares.fold(1.0, f64::max)
}
