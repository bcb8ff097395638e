//! The summaries of graphs that ranks exchange, and the merged result (NCCL's second all-gather).

use plan::{Graph, GraphKind, GraphSummary, MAX_CHANNELS, Pattern};
use topology::{CpuArch, CpuVendor, NodeId, NodeType, PathType, bandwidth};

use crate::cluster::ClusterPlan;
use crate::error::Error;
use crate::host_plan::HostPlan;
use crate::routing::Routing;
use crate::rules::NetPeerChannels;
use crate::settings::ConnectSettings;

/// Parallel channels between two ranks by default.
const DEFAULT_PARTS: u32 = 2;

fn summary_of(kind: GraphKind, plan: &HostPlan) -> GraphSummary {
    let pattern = match kind {
        GraphKind::Ring => Pattern::Ring,
        GraphKind::Tree => Pattern::BalancedTree,
        GraphKind::CollnetChain => Pattern::Tree,
        GraphKind::CollnetDirect => Pattern::CollnetDirect,
        GraphKind::Nvls => Pattern::Nvls,
    };
    let empty = Graph::empty(kind, pattern);
    let graph = plan.graph(kind).unwrap_or(&empty);
    GraphSummary {
        kind,
        pattern: graph.pattern,
        channels: graph.channels.len() as u32,
        same_channels: graph.same_channels,
        bw_intra: graph.bw_intra,
        bw_inter: graph.bw_inter,
        latency_inter: graph.latency_inter,
        type_intra: graph.type_intra,
        type_inter: graph.type_inter,
        cross_nic: graph.cross_nic,
    }
}

fn merge_graph(own: &mut GraphSummary, other: &GraphSummary) {
    own.channels = own.channels.min(other.channels);
    own.same_channels &= other.same_channels;
    own.bw_intra = own.bw_intra.min(other.bw_intra);
    own.bw_inter = own.bw_inter.min(other.bw_inter);
    own.type_intra = own.type_intra.max(other.type_intra);
    own.type_inter = own.type_inter.max(other.type_inter);
    own.cross_nic = own.cross_nic.max(other.cross_nic);
}

/// The facts that hold for all ranks of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct GatheredGraphs {
    /// The graphs in search order, merged.
    pub graphs: [GraphSummary; GraphKind::IN_SEARCH_ORDER.len()],
    /// The most demanding tree pattern.
    pub max_tree_pattern: Pattern,
    /// Lowest compute capability (× 10).
    pub sm_min: i32,
    /// Highest compute capability (× 10).
    pub sm_max: i32,
    /// Compute capability (× 10) of rank 0.
    pub sm_first: i32,
    /// Architecture of all CPUs; `None` if they differ.
    pub cpu_arch: Option<CpuArch>,
    /// Vendor of all CPUs; `None` if they differ.
    pub cpu_vendor: Option<CpuVendor>,
    /// Least bandwidth between a GPU and a port it uses, GB/s; 0 without ports.
    pub min_net_bw: f32,
    /// Fewest ports that a GPU can keep busy.
    pub min_net_count: u32,
    /// Every GPU reaches every other of its node over NVLink or C2C.
    pub all_nvlink: bool,
    /// Fewest ranks of a node.
    pub min_local_ranks: u32,
    /// Most ranks of a node.
    pub max_local_ranks: u32,
    /// Parallel channels for point-to-point transfers between the worst-connected pair, before
    /// adjustment. Before NCCL 2.29 only of pairs inside a node.
    pub p2p_parts: u32,
    /// There are ranks beyond the network.
    pub inter: bool,
}

impl GatheredGraphs {
    /// A graph.
    pub fn graph(&self, kind: GraphKind) -> &GraphSummary {
        let at = GraphKind::IN_SEARCH_ORDER
            .iter()
            .position(|other| *other == kind);
        &self.graphs[at.unwrap_or(0)]
    }

    pub(super) fn graph_mut(&mut self, kind: GraphKind) -> &mut GraphSummary {
        let at = GraphKind::IN_SEARCH_ORDER
            .iter()
            .position(|other| *other == kind);
        &mut self.graphs[at.unwrap_or(0)]
    }

    /// Merges the contributions of the distinct views of a job.
    ///
    /// # Errors
    /// Hosts differ in what NCCL wants equal.
    pub(super) fn merge(plan: &ClusterPlan, settings: &ConnectSettings) -> Result<Self, Error> {
        let first = plan.layout.rank(0).ok_or(Error::NoHosts)?;
        let mut merged = Self::of(plan.node(first.node), settings);
        // Merging the first view once more changes nothing.
        for host in plan.distinct() {
            merged.add(&Self::of(host, settings));
        }
        let system = plan.node(first.node).view.system();
        let gpu = system.gpu_of_rank(first.local as i32);
        merged.sm_first = gpu.and_then(|gpu| system.gpu(gpu)).map_or(0, |gpu| gpu.sm);
        let least = plan
            .machines
            .iter()
            .map(|machine| machine.ports.0)
            .min()
            .unwrap_or(0);
        let most = plan
            .machines
            .iter()
            .map(|machine| machine.ports.1)
            .max()
            .unwrap_or(0);
        if least != most && !settings.ignore_net_mismatch {
            return Err(Error::NetMismatch { least, most });
        }
        if least != most && plan.collnet && !settings.ignore_collnet_mismatch {
            return Err(Error::CollnetMismatch { least, most });
        }
        Ok(merged)
    }

    /// The contribution of the ranks of one view.
    pub(super) fn of(plan: &HostPlan, settings: &ConnectSettings) -> Self {
        let view = &plan.view;
        let (system, routing) = (view.system(), view.routing());
        let rules = routing.settings().rules;
        let gpus: Vec<_> = system.nodes(NodeType::Gpu).collect();
        let sms = || system.gpus().map(|(_, gpu)| gpu.sm);
        let cpu = system.cpus().next().map(|(_, cpu)| cpu);
        let nets: Vec<NetUse> = gpus.iter().map(|gpu| NetUse::of(plan, *gpu)).collect();
        let pairs = || {
            gpus.iter()
                .flat_map(|a| gpus.iter().map(move |b| (*a, *b)))
                .filter(|(a, b)| a != b)
        };
        let worst = pairs()
            .map(|(a, b)| routing.table().kind(a, b))
            .max()
            .unwrap_or(PathType::Loc);
        let local_parts = pairs().map(|(to, from)| {
            let path = routing.table().path(from, to);
            match path.kind {
                PathType::Nvl | PathType::Nvb
                    if path.kind == PathType::Nvl || rules.counts_relayed_nvlink =>
                {
                    let sm = system.gpu(to).map_or(0, |gpu| gpu.sm);
                    DEFAULT_PARTS
                        * ((path.bw / bandwidth::nvlink(sm, rules.knows_rubin)) as u32).max(1)
                }
                _ => DEFAULT_PARTS,
            }
        });
        let remote_parts = nets
            .iter()
            .filter(|_| view.inter && rules.net_peer_channels == NetPeerChannels::ByBandwidth)
            .map(|net| net.parts(settings));
        let graphs = GraphKind::IN_SEARCH_ORDER.map(|kind| summary_of(kind, plan));
        Self {
            max_tree_pattern: plan
                .graph(GraphKind::Tree)
                .map_or(Pattern::BalancedTree, |tree| tree.pattern),
            graphs,
            inter: view.inter,
            sm_min: sms().min().unwrap_or(0),
            sm_max: sms().max().unwrap_or(0),
            sm_first: 0,
            cpu_arch: cpu.map(|cpu| cpu.arch),
            cpu_vendor: cpu.map(|cpu| cpu.vendor),
            min_net_bw: nets
                .iter()
                .map(|net| net.least_bw)
                .reduce(f32::min)
                .unwrap_or(0.0),
            min_net_count: nets.iter().map(|net| net.busy).min().unwrap_or(0),
            all_nvlink: worst < PathType::Pix,
            min_local_ranks: gpus.len() as u32,
            max_local_ranks: gpus.len() as u32,
            p2p_parts: local_parts
                .chain(remote_parts)
                .min()
                .unwrap_or(MAX_CHANNELS)
                .min(MAX_CHANNELS),
        }
    }

    fn add(&mut self, other: &Self) {
        for (graph, other) in self.graphs.iter_mut().zip(&other.graphs) {
            merge_graph(graph, other);
        }
        self.max_tree_pattern = self.max_tree_pattern.max(other.max_tree_pattern);
        self.sm_min = self.sm_min.min(other.sm_min);
        self.sm_max = self.sm_max.max(other.sm_max);
        self.cpu_arch = self.cpu_arch.filter(|arch| Some(*arch) == other.cpu_arch);
        self.cpu_vendor = self
            .cpu_vendor
            .filter(|vendor| Some(*vendor) == other.cpu_vendor);
        self.min_net_bw = self.min_net_bw.min(other.min_net_bw);
        self.min_net_count = self.min_net_count.min(other.min_net_count);
        self.all_nvlink &= other.all_nvlink;
        self.min_local_ranks = self.min_local_ranks.min(other.min_local_ranks);
        self.max_local_ranks = self.max_local_ranks.max(other.max_local_ranks);
        self.p2p_parts = self.p2p_parts.min(other.p2p_parts);
        self.inter |= other.inter;
    }
}

/// The ports that one GPU uses.
struct NetUse {
    /// Least bandwidth to one of them, GB/s.
    least_bw: f32,
    /// Number of ports that together fill the GPU's path to its CPU.
    busy: u32,
    /// Bandwidth of these ports together, GB/s.
    busy_bw: f32,
}

impl NetUse {
    fn of(plan: &HostPlan, gpu: NodeId) -> Self {
        let (system, routing) = (plan.view.system(), plan.view.routing());
        let mut used = Self {
            least_bw: 0.0,
            busy: 0,
            busy_bw: 0.0,
        };
        if routing.settings().rules.net_peer_channels == NetPeerChannels::Halved {
            used.fill_direct_link(routing, gpu);
            return used;
        }
        // A GPU without ports counts as none, where NCCL has no network at all.
        let Ok(nets) = routing.local_nets(gpu) else {
            return used;
        };
        let room = routing
            .local_cpu(gpu)
            .map_or(0.0, |cpu| routing.table().bw(gpu, cpu));
        let mut full = false;
        let mut least = f32::MAX;
        for net in nets {
            // NCCL looks ports up by id and finds the first of those that share one.
            let net = system
                .find(NodeType::Net, system.node(net).id)
                .unwrap_or(net);
            let bw = routing.table().bw(gpu, net);
            least = least.min(bw);
            if !full {
                used.busy += 1;
                used.busy_bw += bw;
                full = used.busy_bw >= room;
            }
        }
        used.least_bw = least;
        used
    }

    /// Counts ports as NCCL before 2.29: the closest ones, until they fill the GPU's own link to a
    /// CPU; none where it has no such link.
    fn fill_direct_link(&mut self, routing: &Routing, gpu: NodeId) {
        let system = routing.system();
        let links = system
            .device_of(gpu)
            .into_iter()
            .flat_map(|device| system.links(device));
        let to_cpu = links.filter(|link| system.kind(system.target(*link)) == NodeType::Cpu);
        let room = to_cpu.last().map_or(0.0, |link| system.link(link).bw);
        for net in routing.nearest(gpu, NodeType::Net).nodes {
            if self.busy_bw >= room {
                break;
            }
            self.busy_bw += routing.table().bw(gpu, net);
            self.busy += 1;
        }
    }

    /// Parallel channels to a rank beyond the network.
    fn parts(&self, settings: &ConnectSettings) -> u32 {
        if let Some(given) = settings.channels_per_net_peer {
            return u32::try_from(given).unwrap_or(u32::MAX);
        }
        if self.busy == 0 {
            return DEFAULT_PARTS;
        }
        let per_channel = u32::try_from(settings.p2p_per_channel_net_bw)
            .unwrap_or(u32::MAX)
            .max(1);
        self.busy.max((self.busy_bw as u32).div_ceil(per_channel))
    }
}
