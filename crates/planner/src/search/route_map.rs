//! The machine as the search walks it: GPUs and ports by position, paths as lists of charges.

use topology::{
    CpuArch, CpuVendor, LinkId, LinkType, NodeData, NodeId, NodeType, PathType, System,
};

use super::ports::{SearchPort, closest_gpus, ports};
use crate::routing::Routing;

/// "No link", "no port".
pub(super) const NONE: u32 = u32::MAX;

/// The charge of one link of a path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Charge {
    pub link: u32,
    /// The link that traffic back uses, or [`NONE`].
    pub back: u32,
    /// The back link carries an eighth (acknowledgements of a pre-Ampere GPU), not the whole.
    pub back_eighth: bool,
    pub is_pci: bool,
}

/// One path between two ends of interest.
#[derive(Debug, Clone, Copy)]
pub(super) struct SearchRoute {
    /// Routes are numbered in the order of [`RouteMap::routes`].
    pub number: u32,
    first: u32,
    len: u32,
    /// Links, as NCCL counts them.
    pub hops: u32,
    pub bw: f32,
    pub kind: PathType,
    /// The type of the path in the other direction.
    pub back_kind: PathType,
    /// PCI links carry a fifth more: a GPU writes through an Intel host bridge.
    pub intel_overhead: bool,
}

impl SearchRoute {
    fn of<'c>(&self, charges: &'c [Charge]) -> &'c [Charge] {
        &charges[self.first as usize..(self.first + self.len) as usize]
    }

    /// Whether the path, and the one back where that counts, is no worse than a type.
    pub(super) fn is_within(&self, worst: PathType, both_directions: bool) -> bool {
        self.kind < PathType::Dis
            && self.kind <= worst
            && (!both_directions || self.back_kind <= worst)
    }
}

/// Everything the search reads and never changes.
#[derive(Debug)]
pub(super) struct RouteMap {
    pub gpus: usize,
    /// Words for a bit of each GPU.
    pub words: usize,
    pub has_nvs: bool,
    pub ports: Vec<SearchPort>,
    /// For each GPU the others, best connected first: widest, fewest links, nearest in number.
    pub neighbours: Vec<Vec<Neighbour>>,
    /// For each port and GPU the part of the GPU's sorting key that does not change: see
    /// [`RouteMap::port_key`].
    port_keys: Vec<u64>,
    /// For each GPU its PCI link up and the one back down to it.
    pub uplink: Vec<Option<(u32, u32)>>,
    /// No path between two GPUs crosses a PCI link of a third.
    pub private_uplinks: bool,
    /// For each port the GPUs with the widest path to it; empty when it reaches none.
    pub closest_gpus: Vec<Vec<u32>>,
    gpu_to_gpu: Vec<SearchRoute>,
    port_to_gpu: Vec<SearchRoute>,
    gpu_to_port: Vec<SearchRoute>,
    nvs_to_gpu: Vec<SearchRoute>,
    gpu_to_nvs: Vec<SearchRoute>,
    charges: Vec<Charge>,
}

/// A GPU as seen from another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Neighbour {
    pub gpu: u32,
    /// The route there.
    pub route: SearchRoute,
    /// GPUs of one class are equally well connected: bandwidth in whole GB/s, and links.
    class: u32,
}

impl RouteMap {
    pub(super) fn new(routing: &Routing) -> Self {
        let system = routing.system();
        let gpu_nodes: Vec<NodeId> = system.nodes(NodeType::Gpu).collect();
        let port_nodes: Vec<NodeId> = system.nodes(NodeType::Net).collect();
        let nvs = system.nodes(NodeType::Nvs).next();
        let mut compiler = Compiler {
            routing,
            system,
            charges: Vec::new(),
            routes: 0,
        };
        let mut all = |from: &[NodeId], to: &[NodeId]| -> Vec<SearchRoute> {
            from.iter()
                .flat_map(|a| to.iter().map(move |b| (*a, *b)))
                .map(|(a, b)| compiler.route(a, b))
                .collect()
        };
        let gpu_to_gpu = all(&gpu_nodes, &gpu_nodes);
        let port_to_gpu = all(&port_nodes, &gpu_nodes);
        let gpu_to_port = all(&gpu_nodes, &port_nodes);
        let nvs_to_gpu = all(nvs.as_slice(), &gpu_nodes);
        let gpu_to_nvs = all(&gpu_nodes, nvs.as_slice());
        let charges = compiler.charges;
        let uplink: Vec<_> = gpu_nodes.iter().map(|gpu| uplink(system, *gpu)).collect();
        Self {
            private_uplinks: are_private(system.link_count(), &uplink, &gpu_to_gpu, &charges),
            gpus: gpu_nodes.len(),
            words: gpu_nodes.len().div_ceil(64),
            has_nvs: nvs.is_some(),
            neighbours: neighbours(gpu_nodes.len(), &gpu_to_gpu),
            port_keys: port_to_gpu
                .chunks(gpu_nodes.len().max(1))
                .flat_map(port_keys)
                .collect(),
            uplink,
            closest_gpus: port_nodes
                .iter()
                .map(|port| closest_gpus(routing, *port))
                .collect(),
            ports: ports(routing, &port_nodes),
            gpu_to_gpu,
            port_to_gpu,
            gpu_to_port,
            nvs_to_gpu,
            gpu_to_nvs,
            charges,
        }
    }

    pub(super) fn gpu_to_gpu(&self, from: u32, to: u32) -> &SearchRoute {
        &self.gpu_to_gpu[from as usize * self.gpus + to as usize]
    }

    /// The key that sorts GPUs by their paths to a port: the widest path from the port first, then
    /// the widest PCI link (`pci_bw`, whole GB/s, -1 is none), then the fewest links. The lowest
    /// bits are free for the rank of a [neighbour](super::nearby::Nearby).
    pub(super) fn port_key(&self, port: u32, gpu: usize, pci_bw: i32) -> u64 {
        self.port_keys[port as usize * self.gpus + gpu]
            | u64::from(inverse(pci_bw)) << (2 * PLACE_BITS)
    }

    /// The rank in a key.
    pub(super) const fn rank_in(key: u64) -> usize {
        (key & ((1 << PLACE_BITS) - 1)) as usize
    }

    /// The numbers of the routes from a GPU to others begin here.
    pub(super) const fn first_route(&self, gpu: u32) -> u32 {
        gpu * self.gpus as u32
    }

    pub(super) fn port_to_gpu(&self, port: u32, gpu: u32) -> &SearchRoute {
        &self.port_to_gpu[port as usize * self.gpus + gpu as usize]
    }

    pub(super) fn gpu_to_port(&self, gpu: u32, port: u32) -> &SearchRoute {
        &self.gpu_to_port[gpu as usize * self.ports.len() + port as usize]
    }

    /// All routes from ports to GPUs, and from GPUs to ports.
    pub(super) fn port_routes(&self) -> [&[SearchRoute]; 2] {
        [&self.port_to_gpu, &self.gpu_to_port]
    }

    pub(super) fn nvs_to_gpu(&self, gpu: u32) -> &SearchRoute {
        &self.nvs_to_gpu[gpu as usize]
    }

    pub(super) fn gpu_to_nvs(&self, gpu: u32) -> &SearchRoute {
        &self.gpu_to_nvs[gpu as usize]
    }

    fn lists(&self) -> [&[SearchRoute]; 5] {
        [
            &self.gpu_to_gpu,
            &self.port_to_gpu,
            &self.gpu_to_port,
            &self.nvs_to_gpu,
            &self.gpu_to_nvs,
        ]
    }

    /// All routes, by number.
    pub(super) fn routes(&self) -> impl Iterator<Item = &SearchRoute> {
        self.lists().into_iter().flatten()
    }

    pub(super) fn route_count(&self) -> usize {
        self.lists().iter().map(|list| list.len()).sum()
    }

    /// Whether all other GPUs are equally well connected to one, apart from those that `skip`
    /// names.
    pub(super) fn is_uniform(&self, gpu: u32, skip: impl Fn(u32) -> bool) -> bool {
        let mut others = self.neighbours[gpu as usize]
            .iter()
            .filter(|other| !skip(other.gpu));
        let best = others.next();
        // They are in order, so the last one is the worst.
        let worst = others.next_back();
        best.zip(worst)
            .is_none_or(|(best, worst)| best.class == worst.class)
    }

    /// The types of paths between GPUs and the switch, and between GPUs and ports, as bits.
    pub(super) fn kinds(&self) -> (u16, u16) {
        let bits = |lists: &[&[SearchRoute]]| {
            lists
                .iter()
                .flat_map(|list| list.iter())
                .fold(0u16, |bits, route| bits | 1 << route.kind as u16)
        };
        (
            bits(&[&self.gpu_to_gpu, &self.nvs_to_gpu, &self.gpu_to_nvs]),
            bits(&[&self.port_to_gpu, &self.gpu_to_port]),
        )
    }

    pub(super) fn charges(&self, route: &SearchRoute) -> &[Charge] {
        route.of(&self.charges)
    }
}

/// Bits for a place among the GPUs of a system, of which there are at most 640.
const PLACE_BITS: u32 = 10;

/// The parts of the sorting keys of one port that do not change: places by bandwidth and by links.
fn port_keys(routes: &[SearchRoute]) -> Vec<u64> {
    let place = |value: i64, all: &dyn Fn(&SearchRoute) -> i64| {
        let mut lower: Vec<i64> = routes
            .iter()
            .map(all)
            .filter(|other| *other < value)
            .collect();
        lower.sort_unstable();
        lower.dedup();
        lower.len() as u64
    };
    let by_bw = |route: &SearchRoute| -i64::from(route.bw as i32);
    let by_hops = |route: &SearchRoute| i64::from(route.hops);
    routes
        .iter()
        .map(|route| {
            place(by_bw(route), &by_bw) << (2 * PLACE_BITS + 32)
                | place(by_hops(route), &by_hops) << PLACE_BITS
        })
        .collect()
}

/// Reverses the order of whole numbers.
const fn inverse(value: i32) -> u32 {
    !(value as u32 ^ 1 << 31)
}

struct Compiler<'a> {
    routing: &'a Routing,
    system: &'a System,
    charges: Vec<Charge>,
    routes: u32,
}

impl Compiler<'_> {
    /// Whether a link joins a rank and its GPU.
    fn inside_device(&self, link: LinkId) -> bool {
        let (from, to) = self.system.ends(link);
        [from, to]
            .map(|node| self.system.kind(node))
            .contains(&NodeType::Gpu)
    }

    fn route(&mut self, from: NodeId, to: NodeId) -> SearchRoute {
        let table = self.routing.table();
        let path = table.path(from, to);
        let first = self.charges.len() as u32;
        let from_gpu = self.system.kind(from) == NodeType::Gpu;
        let mut through_intel = false;
        for hop in path.hops {
            let (u, v) = self.system.ends(*hop);
            let link = self.system.link(*hop);
            let back = |kind| {
                self.system
                    .link_between(v, u, kind)
                    .map_or(NONE, |link| link.0)
            };
            let mut charge = Charge {
                link: hop.0,
                back: NONE,
                back_eighth: false,
                is_pci: link.kind == LinkType::Pci,
            };
            match &self.system.node(v).data {
                NodeData::Dev(dev) if dev.sm < 80 && !from_gpu => {
                    charge.back = back(link.kind);
                    charge.back_eighth = true;
                }
                NodeData::Cpu(cpu) => {
                    through_intel |= cpu.arch == CpuArch::X86 && cpu.vendor == CpuVendor::Intel;
                    if cpu.arch == CpuArch::Power && link.kind == LinkType::Nvl {
                        charge.back = back(link.kind);
                    }
                }
                _ => {}
            }
            self.charges.push(charge);
        }
        self.routes += 1;
        let mut hops = path.hops.len();
        if !self.routing.settings().rules.separates_devices {
            hops -= path
                .hops
                .iter()
                .filter(|hop| self.inside_device(**hop))
                .count();
        }
        let hops = hops as u32;
        SearchRoute {
            number: self.routes - 1,
            first,
            len: path.hops.len() as u32,
            hops,
            bw: path.bw,
            kind: path.kind,
            back_kind: table.kind(to, from),
            intel_overhead: path.kind == PathType::Phb && from_gpu && through_intel,
        }
    }
}

/// Whether a link can never be the one that lacks bandwidth, because everything that crosses it
/// also crosses links that have less together.
pub(super) fn never_binds(system: &System, link: u32) -> bool {
    let link = LinkId(link);
    let bw = system.link(link).bw;
    if bw < MUCH {
        return false;
    }
    let is_end = |node| {
        matches!(
            system.kind(node),
            NodeType::Gpu | NodeType::Net | NodeType::Nvs
        )
    };
    let (from, to) = system.ends(link);
    let beyond = || {
        let links = system.links(to).filter(|next| system.target(*next) != from);
        links.map(|next| system.link(next).bw).sum::<f32>()
    };
    let before = || {
        let all = (0..system.link_count() as u32).map(LinkId);
        let links = all.filter(|earlier| {
            let (start, end) = system.ends(*earlier);
            end == from && start != to
        });
        links.map(|earlier| system.link(earlier).bw).sum::<f32>()
    };
    !is_end(to) && beyond() < bw * ENOUGH || !is_end(from) && before() < bw * ENOUGH
}

/// Links with less can always bind, GB/s.
const MUCH: f32 = 2000.0;

/// The part of a link's bandwidth that everything around it may need together.
const ENOUGH: f32 = 0.9;

fn neighbours(gpus: usize, routes: &[SearchRoute]) -> Vec<Vec<Neighbour>> {
    (0..gpus)
        .map(|from| {
            let quality = |route: &SearchRoute| (-(route.bw as i32), route.hops);
            let mut others: Vec<Neighbour> = (1..gpus)
                .map(|offset| {
                    let gpu = (from + offset) % gpus;
                    Neighbour {
                        gpu: gpu as u32,
                        route: routes[from * gpus + gpu],
                        class: 0,
                    }
                })
                .filter(|neighbour| neighbour.route.hops > 0)
                .collect();
            // Stable: the nearest in number stay in front.
            others.sort_by_key(|neighbour| quality(&neighbour.route));
            for at in 1..others.len() {
                let same = quality(&others[at].route) == quality(&others[at - 1].route);
                others[at].class = others[at - 1].class + u32::from(!same);
            }
            others
        })
        .collect()
}

fn uplink(system: &System, gpu: NodeId) -> Option<(u32, u32)> {
    let device = system.device_of(gpu)?;
    system
        .links(device)
        .filter(|link| system.link(*link).kind == LinkType::Pci)
        .find_map(|up| {
            let down = system
                .links(system.target(up))
                .find(|link| system.target(*link) == device)?;
            Some((up.0, down.0))
        })
}

/// Whether each route between GPUs leaves the PCI links of other GPUs alone.
fn are_private(
    links: usize,
    uplinks: &[Option<(u32, u32)>],
    gpu_to_gpu: &[SearchRoute],
    charges: &[Charge],
) -> bool {
    let mut owners = vec![None; links];
    for (gpu, uplink) in uplinks.iter().enumerate() {
        for link in uplink.iter().flat_map(|(up, down)| [*up, *down]) {
            owners[link as usize] = Some(gpu);
        }
    }
    let gpus = uplinks.len();
    gpu_to_gpu.iter().enumerate().all(|(pair, route)| {
        let is_end = |gpu| gpu == pair / gpus || gpu == pair % gpus;
        route
            .of(charges)
            .iter()
            .flat_map(|charge| [charge.link, charge.back])
            .filter(|link| *link != NONE)
            .all(|link| owners[link as usize].is_none_or(is_end))
    })
}
