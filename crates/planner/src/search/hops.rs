//! The load of hops between GPUs and ports on links, as the search charges it: for searches of
//! other rings than NCCL's.

use topology::{LinkId, NodeId, PathType};

use super::ports::SearchPort;
use super::route_map::{NONE, RouteMap, SearchRoute};
use super::speeds;
use crate::view::View;

/// The unit of a hop's load on a link, for each bit that it moves: a fifth more and an eighth are
/// multiples of it.
pub const PARTS: u64 = 40;

/// A GPU that writes through an Intel host bridge loads PCI links with this much.
const PCI_OVERHEAD: u64 = PARTS * 6 / 5;

/// Units of bandwidth in a GB/s.
const UNITS: f64 = 10_000.0;

/// A hop of a channel: from a GPU or port to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// The type of its path.
    pub kind: PathType,
    /// For each link that it loads, how much of the channel's bandwidth, in [`PARTS`].
    pub charges: Vec<(u32, u64)>,
}

/// A port through which channels may enter and leave.
#[derive(Debug, Clone, PartialEq)]
pub struct HopPort {
    /// NCCL's id.
    pub id: i64,
    /// Latency, µs.
    pub latency: f32,
}

/// All hops of a machine. On links whose bandwidths were measured a hop takes its data alone: what
/// NCCL charges beside it is in the measured value.
#[derive(Debug, Clone, PartialEq)]
pub struct Hops {
    /// The ranks of the GPUs, by position.
    pub ranks: Vec<i32>,
    /// The ports, if channels leave the machine.
    pub ports: Vec<HopPort>,
    /// Capacities of links and ports, 0.1 MB/s; [`Hop::charges`] has their numbers.
    pub capacities: Vec<u64>,
    /// The most that NCCL gives one channel on these GPUs, GB/s.
    pub fastest: f32,
    between: Vec<Option<Hop>>,
}

impl Hops {
    /// The hops that NCCL's rules allow in rings on a machine.
    pub fn of(view: &View) -> Self {
        let (system, route_map) = (view.system(), RouteMap::new(view.routing()));
        let measured = view.routing().is_measured();
        let units = |bandwidth: f32| (f64::from(bandwidth) * UNITS).round().max(0.0) as u64;
        let links = (0..system.link_count() as u32).map(|link| system.link(LinkId(link)).bw);
        let mut capacities: Vec<u64> = links.map(units).collect();
        let first_port = capacities.len() as u32;
        let used = |number: usize, port: &SearchPort| view.inter && port.canonical == number as u32;
        let ports: Vec<(u32, &SearchPort)> = (0u32..)
            .zip(&route_map.ports)
            .filter(|(number, port)| used(*number as usize, port))
            .collect();
        capacities.extend(route_map.ports.iter().map(|port| units(port.bw)));
        let gpus = route_map.gpus;
        let stations = gpus + ports.len();
        let mut between = Vec::with_capacity(stations * stations);
        for from in 0..stations {
            for to in 0..stations {
                let port = |at: usize| at.checked_sub(gpus).map(|at| ports[at]);
                let hop = match (port(from), port(to)) {
                    (None, None) if from != to => {
                        let route = route_map.gpu_to_gpu(from as u32, to as u32);
                        hop((&route_map, measured), route, None)
                    }
                    (Some((number, port)), None) => {
                        let route = route_map.port_to_gpu(number, to as u32);
                        // What enters through a port takes of all that share its bandwidth.
                        hop((&route_map, measured), route, Some(first_port + port.group))
                    }
                    (None, Some((number, _))) => {
                        let route = route_map.gpu_to_port(from as u32, number);
                        hop((&route_map, measured), route, None)
                    }
                    _ => None,
                };
                between.push(hop);
            }
        }
        let version = view.routing().settings().rules.version();
        let sm_min = system.devs().map(|(_, dev)| dev.sm).min().unwrap_or(0);
        let id = |node: NodeId| system.node(node).id.0 as i64;
        Self {
            ranks: system.gpus().map(|(_, gpu)| gpu.rank).collect(),
            fastest: speeds::table(version, view.inter, sm_min)[0],
            ports: ports
                .iter()
                .map(|(_, port)| HopPort {
                    id: id(port.node),
                    latency: port.latency,
                })
                .collect(),
            capacities,
            between,
        }
    }

    /// GPUs and ports together; GPUs come first.
    pub const fn stations(&self) -> usize {
        self.ranks.len() + self.ports.len()
    }

    /// The hop between two stations; `None` if NCCL's rules have no path for it.
    pub fn hop(&self, from: usize, to: usize) -> Option<&Hop> {
        self.between[from * self.stations() + to].as_ref()
    }
}

/// A route as a hop that also takes of a port.
fn hop(
    (route_map, measured): (&RouteMap, bool),
    route: &SearchRoute,
    port: Option<u32>,
) -> Option<Hop> {
    if route.hops == 0 || route.kind > PathType::Sys {
        return None;
    }
    let mut charges: Vec<(u32, u64)> = port.map(|port| (port, PARTS)).into_iter().collect();
    let mut charge =
        |link: u32, parts: u64| match charges.iter_mut().find(|(known, _)| *known == link) {
            Some((_, all)) => *all += parts,
            None => charges.push((link, parts)),
        };
    for step in route_map.charges(route) {
        if measured {
            charge(step.link, PARTS);
            continue;
        }
        let forward = match step.is_pci && route.intel_overhead {
            true => PCI_OVERHEAD,
            false => PARTS,
        };
        charge(step.link, forward);
        if step.back != NONE {
            let back = if step.back_eighth {
                forward / 8
            } else {
                forward
            };
            charge(step.back, back);
        }
    }
    Some(Hop {
        kind: route.kind,
        charges,
    })
}
