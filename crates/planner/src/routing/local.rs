//! The closest devices: CPUs, ports and GPUs.

use topology::{NodeId, NodeType, PathType, System};

use super::Routing;
use crate::error::{Error, name};
use crate::rules::FirstPort;
use crate::settings::NetDevsPolicy;

/// Most channels for which a GPU may choose ports.
const MAX_CHANNELS: usize = 64;

/// The closest nodes of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nearest {
    /// The nodes, in node order.
    pub nodes: Vec<NodeId>,
    /// The type of the path to them.
    pub kind: PathType,
}

impl Routing {
    /// The nodes of a type with the widest path, and among those the best type.
    pub fn nearest(&self, from: NodeId, kind: NodeType) -> Nearest {
        let mut nearest = Nearest {
            nodes: Vec::new(),
            kind: PathType::Dis,
        };
        if !self.table.reaches(from, kind) {
            return nearest;
        }
        let mut best_bw = 0.0f32;
        for node in self.system.nodes(kind) {
            let (path_kind, bw) = (self.table.kind(from, node), self.table.bw(from, node));
            if bw > best_bw || bw == best_bw && path_kind < nearest.kind {
                best_bw = bw;
                nearest.kind = path_kind;
                nearest.nodes.clear();
            }
            if bw == best_bw && path_kind == nearest.kind {
                nearest.nodes.push(node);
            }
        }
        nearest
    }

    /// The CPU closest to a GPU: widest, best type, then fewest links. Before NCCL 2.30 the one
    /// with the fewest links.
    ///
    /// # Errors
    /// The GPU reaches none.
    pub fn local_cpu(&self, gpu: NodeId) -> Result<NodeId, Error> {
        let nodes = if self.settings.rules.takes_widest_cpu {
            self.nearest(gpu, NodeType::Cpu).nodes
        } else {
            let reached = |cpu: &NodeId| self.table.hop_count(gpu, *cpu) > 0;
            self.system.nodes(NodeType::Cpu).filter(reached).collect()
        };
        nodes
            .into_iter()
            .min_by_key(|cpu| self.table.hop_count(gpu, *cpu))
            .ok_or_else(|| Error::NoLocalCpu {
                gpu: name(&self.system, gpu),
            })
    }

    /// The ports that a GPU uses for channel 0, 1, 2 …, up to the first that repeats that of
    /// channel 0.
    ///
    /// # Errors
    /// The GPU reaches no port.
    pub fn local_nets(&self, gpu: NodeId) -> Result<Vec<NodeId>, Error> {
        let choice = self.net_choice(gpu)?;
        let first = choice.port(0);
        let rest = (1..MAX_CHANNELS)
            .map(|channel| choice.port(channel))
            .take_while(|net| *net != first);
        Ok(std::iter::once(first).chain(rest).collect())
    }

    /// Whether NCCL 2.31 begins to count a GPU's ports by the GPUs that share them.
    fn wraps_by_card(&self, gpu: NodeId, ports: &[NodeId]) -> bool {
        let is_blackwell = self.system.gpu(gpu).is_some_and(|gpu| gpu.sm >= 100);
        let mut ports = ports.iter().filter_map(|port| self.system.net(*port));
        self.settings.scatters_ports || is_blackwell && ports.any(|port| port.connectx8)
    }

    fn net_choice(&self, gpu: NodeId) -> Result<NetChoice, Error> {
        let ports = self.nearest(gpu, NodeType::Net).nodes;
        let Some(first) = ports.first() else {
            return Err(Error::NoNet {
                gpu: name(&self.system, gpu),
                why: "a port is chosen for each channel".into(),
            });
        };
        let sharers = self.nearest(*first, NodeType::Gpu).nodes.len();
        Ok(NetChoice::new(self, gpu, ports, sharers))
    }
}

/// How a GPU spreads its channels over its closest ports.
struct NetChoice {
    /// The first of the closest ports.
    first: NodeId,
    /// The ports, in the order in which channels take them from `start` on.
    ports: Vec<NodeId>,
    start: usize,
    share: usize,
}

impl NetChoice {
    fn new(routing: &Routing, gpu: NodeId, ports: Vec<NodeId>, sharers: usize) -> Self {
        let (count, first) = (ports.len(), ports[0]);
        let sharers = sharers.max(1);
        let dev = routing.system.gpu(gpu).map_or(0, |gpu| gpu.dev);
        let is_wrapped = match routing.settings.rules.first_port {
            FirstPort::Wrapped => true,
            FirstPort::WrappedByCard => routing.wraps_by_card(gpu, &ports),
            FirstPort::Device | FirstPort::Spread => false,
        };
        let dev = match is_wrapped {
            true => dev.rem_euclid(sharers as i32) as usize,
            false => dev.max(0) as usize,
        };
        let start = |count: usize| match count.is_power_of_two() {
            true => mirror_bits(dev, count.trailing_zeros()),
            false => dev,
        };
        let (ports, start, auto) = match routing.settings.rules.first_port {
            FirstPort::Device | FirstPort::Wrapped | FirstPort::WrappedByCard => {
                (ports, start(count), count.div_ceil(sharers))
            }
            FirstPort::Spread => {
                // Whole rails are shared out.
                let (ports, begins) = routing.by_rail(&ports);
                let rails = begins.len();
                let share = rails.div_ceil(sharers);
                let rail = match rails.is_power_of_two() {
                    true => start(rails),
                    false => dev * share,
                };
                let rail = rail % rails;
                let length = |rail: usize| {
                    let end = begins.get(rail + 1).copied().unwrap_or(count);
                    end - begins[rail]
                };
                let own = (0..share).map(|next| length((rail + next) % rails));
                let own = own.sum();
                (ports, begins[rail], own)
            }
        };
        let share = match routing.settings.netdevs_policy {
            NetDevsPolicy::Auto => auto,
            NetDevsPolicy::All => count,
            NetDevsPolicy::Max(most) => count.min(most as usize),
        };
        Self {
            first,
            ports,
            start,
            share: share.max(1),
        }
    }

    fn port(&self, channel: usize) -> NodeId {
        self.ports[(self.start + channel % self.share) % self.ports.len()]
    }
}

/// Reverses the lowest `bits` bits; higher ones are dropped.
fn mirror_bits(value: usize, bits: u32) -> usize {
    (0..bits)
        .filter(|bit| value >> bit & 1 != 0)
        .map(|bit| 1 << (bits - 1 - bit))
        .sum()
}

/// Remembers which ports GPUs choose while paths are still being changed.
pub(super) struct Choices {
    first_gpu: usize,
    first_net: usize,
    of_gpu: Vec<Option<NetChoice>>,
    gpus_of_net: Vec<Option<Vec<NodeId>>>,
}

impl Choices {
    pub(super) fn new(system: &System) -> Self {
        Self {
            first_gpu: system.range(NodeType::Gpu).start,
            first_net: system.range(NodeType::Net).start,
            of_gpu: (0..system.count(NodeType::Gpu)).map(|_| None).collect(),
            gpus_of_net: vec![None; system.count(NodeType::Net)],
        }
    }

    /// Forgets what depended on the paths between this GPU and this port.
    pub(super) fn forget(&mut self, gpu: NodeId, net: NodeId) {
        self.of_gpu[gpu.index() - self.first_gpu] = None;
        self.gpus_of_net[net.index() - self.first_net] = None;
        // A choice also depends on how many GPUs share the first port.
        for choice in &mut self.of_gpu {
            if choice.as_ref().is_some_and(|choice| choice.first == net) {
                *choice = None;
            }
        }
    }

    fn gpus_of(&mut self, routing: &Routing, net: NodeId) -> &[NodeId] {
        self.gpus_of_net[net.index() - self.first_net]
            .get_or_insert_with(|| routing.nearest(net, NodeType::Gpu).nodes)
    }

    fn choice_of(&mut self, routing: &Routing, gpu: NodeId) -> Result<&NetChoice, Error> {
        let at = gpu.index() - self.first_gpu;
        if self.of_gpu[at].is_none() {
            let ports = routing.nearest(gpu, NodeType::Net).nodes;
            let Some(first) = ports.first().copied() else {
                return Err(Error::NoNet {
                    gpu: name(&routing.system, gpu),
                    why: "a port next to it looks for GPUs that use it".into(),
                });
            };
            let sharers = self.gpus_of(routing, first).len();
            self.of_gpu[at] = Some(NetChoice::new(routing, gpu, ports, sharers));
        }
        self.of_gpu[at].as_ref().ok_or_else(|| Error::NoNet {
            gpu: name(&routing.system, gpu),
            why: String::new(),
        })
    }

    /// The first GPU, going through the channels, among those closest to a port that chooses it.
    pub(super) fn local_gpu(
        &mut self,
        routing: &Routing,
        net: NodeId,
    ) -> Result<Option<NodeId>, Error> {
        let gpus = self.gpus_of(routing, net).to_vec();
        let mut longest = 1;
        for gpu in &gpus {
            longest = longest.max(self.choice_of(routing, *gpu)?.share);
        }
        // A GPU's choices repeat after its share.
        for channel in 0..longest.min(MAX_CHANNELS) {
            for gpu in &gpus {
                if self.choice_of(routing, *gpu)?.port(channel) == net {
                    return Ok(Some(*gpu));
                }
            }
        }
        Ok(None)
    }
}
