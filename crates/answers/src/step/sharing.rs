//! Links that the communicators of a group share, all of which call at the same time.
//!
//! Each communicator is planned as if it had the machine alone. The rings of those that begin on
//! the first host load its links together; a link that is loaded beyond its bandwidth slows all of
//! them by as much. So do the uplinks of a leaf switch: a ring loads them wherever the next host is
//! on another leaf switch, an all-to-all with what each rank sends to ranks behind others.

use std::collections::HashMap;

use pages::draw::traffic::loads;
use plan::GraphKind;
use planner::{HostPlan, Planned};
use program::Collective;
use serde::Serialize;
use simulator::fabric::Leaf;
use topology::{LinkType, NcclId, NodeType};

use super::shapes::Alike;
use crate::JsonSchema;

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
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Sharing {
    /// How many times longer the bytes of a message take since its communicators share links.
    #[serde(rename = "sharing")]
    pub links: f64,
    /// The same of the uplinks of leaf switches.
    pub uplinks: f64,
    /// The same of uplinks in an all-to-all.
    #[serde(rename = "uplinks_in_exchange")]
    pub exchange: f64,
}

impl Sharing {
    /// What the communicators of a group share, whose shapes are `alike` with the plans `planned`,
    /// on so many hosts under leaf switches.
    pub(super) fn of(alike: &[Alike], planned: &[&Planned], network: Option<(&Leaf, u32)>) -> Self {
        let here = planned.iter().copied().zip(alike);
        let here = here.filter(|(_, alike)| alike.here > 0).map(|(it, _)| it);
        let mut found = Self {
            links: links(here),
            uplinks: 1.0,
            exchange: 1.0,
        };
        let ports = planned.iter().map(|it| ports(it)).fold(0.0, f64::max);
        let Some((leaf, hosts)) = network.filter(|_| ports > 0.0) else {
            return found;
        };
        let sent: f64 = alike.iter().map(|it| it.exchange).sum();
        for (number, size) in leaf.sizes(hosts).into_iter().enumerate() {
            let capacity = ports * f64::from(size) / leaf.oversubscription;
            let (mut rings, mut exchange) = (0.0, 0.0);
            for (alike, planned) in alike.iter().zip(planned) {
                if let Some(crossing) = alike.leaves.get(number) {
                    rings += crossing.hops * ring(planned);
                    exchange += crossing.exchange;
                }
            }
            if capacity > 0.0 {
                found.uplinks = found.uplinks.max(rings / capacity);
                if sent > 0.0 {
                    found.exchange = found.exchange.max(exchange / capacity * ports / sent);
                }
            }
        }
        found
    }

    /// How many times longer the bytes of a collective take.
    pub fn times(&self, collective: Collective) -> f64 {
        self.links.max(match collective {
            Collective::AllToAll => self.exchange,
            _ => self.uplinks,
        })
    }
}

/// The first host of a plan.
fn host(planned: &Planned) -> Option<&HostPlan> {
    planned.machines().first()?.nodes.first()
}

/// Bandwidth of all ports of a host, GB/s.
fn ports(planned: &Planned) -> f64 {
    let Some(host) = host(planned) else {
        return 0.0;
    };
    let system = host.view.system();
    let mut known: HashMap<(u64, i32), f64> = HashMap::new();
    for node in system.nodes(NodeType::Net) {
        if let Some(net) = system.net(node) {
            known.insert((net.asic, net.port), f64::from(net.bw));
        }
    }
    known.values().sum()
}

/// Bandwidth of all rings between two hosts, GB/s.
fn ring(planned: &Planned) -> f64 {
    let ring = host(planned).and_then(|it| it.graph(GraphKind::Ring));
    ring.map_or(0.0, |it| f64::from(it.bw_inter) * it.channels.len() as f64)
}

/// The load of the fullest link of the first host by its capacity. `plans` are those of the
/// communicators that begin there.
fn links<'a>(plans: impl Iterator<Item = &'a Planned>) -> f64 {
    let mut loaded: HashMap<Link, Load> = HashMap::new();
    for planned in plans {
        let first = host(planned);
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
