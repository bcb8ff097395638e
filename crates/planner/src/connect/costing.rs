//! The inputs of the cost model for a joined job.

use std::collections::BTreeSet;

use plan::{Connection, GraphKind, GraphSummary};
use topology::{NodeType, PathType};

use super::JobPlan;
use crate::HostPlan;
use crate::cost::{CollnetInputs, GraphFigures, Inputs, Merged, NvlsInputs};

impl From<&GraphSummary> for GraphFigures {
    fn from(graph: &GraphSummary) -> Self {
        Self {
            channels: graph.channels,
            same_channels: graph.same_channels,
            bw_intra: graph.bw_intra,
            bw_inter: graph.bw_inter,
            latency_inter: graph.latency_inter,
            type_intra: graph.type_intra,
            type_inter: graph.type_inter,
        }
    }
}

/// Whether NVLink joins each two GPUs of a node without another GPU between.
fn joins_directly(plan: &HostPlan) -> bool {
    let (system, table) = (plan.view.system(), plan.view.routing().table());
    let mut gpus = system.nodes(NodeType::Gpu);
    gpus.all(|from| {
        let mut others = system.nodes(NodeType::Gpu);
        others.all(|to| table.kind(from, to) <= PathType::Nvl)
    })
}

/// Whether each two GPUs of a node reach each other's memory, without another GPU between.
fn reaches_memory(plan: &HostPlan) -> bool {
    let (system, routing) = (plan.view.system(), plan.view.routing());
    let mut gpus = system.nodes(NodeType::Gpu);
    gpus.all(|from| {
        let mut others = system.nodes(NodeType::Gpu);
        others.all(|to| {
            let p2p = routing.p2p(from, to);
            p2p.is_ok_and(|it| it.ok && it.relay.is_none())
        })
    })
}

/// Whether a node's programs can register buffers.
fn registers(plan: &HostPlan) -> bool {
    let settings = plan.view.routing().settings();
    let copies = settings.p2p_use_cuda_memcpy && settings.rules.registers_without_copies;
    settings.tuning.registers && !copies
}

impl JobPlan {
    /// The ports with which rings of nodes of one GPU reach registered buffers; `None` if nodes
    /// have several GPUs, or a connection of a ring lacks GPUDirect RDMA.
    fn registered_ports(&self) -> Option<u32> {
        let (layout, expansion) = (self.layout(), &self.expansion);
        if layout.nodes() != layout.ranks() || layout.nodes() < 2 {
            return None;
        }
        let mut seen = BTreeSet::new();
        let reaches = |connection: &Connection, rank: u32| {
            matches!(connection, Connection::Network { sender, receiver, .. }
                if sender.gdr.is_direct() && receiver.gdr.is_direct() && sender.proxy == rank)
        };
        // Each node has one rank, so that both have the same number.
        for rank in layout.representatives() {
            let node = layout.rank(rank)?.node;
            let next = |rank| Some(expansion.ring_place(rank, 0)?.next);
            let following = layout.rank(next(rank)?)?.node;
            let kinds = [node, following].map(|node| (node.machine, node.index));
            if !seen.insert(kinds) {
                continue;
            }
            for channel in 0..expansion.channels() {
                let next = expansion.ring_place(rank, channel)?.next;
                let connection = expansion.connection(rank, next, GraphKind::Ring, channel);
                connection.ok().filter(|it| reaches(it, rank))?;
            }
        }
        let first = layout.node(0).map(|node| self.node_plan(node))?;
        let counts = first
            .view
            .routing()
            .settings()
            .rules
            .counts_registered_ports;
        Some(if counts { self.facts.min_net_count } else { 1 })
    }

    /// Returns the inputs of the cost model, as rank 0 has them. Assumes that a reducing network
    /// also gathers and reduce-scatters, and that the host drives its ports.
    pub fn cost_inputs(&self) -> Inputs {
        let (facts, layout) = (&self.facts, self.layout());
        let (expansion, common) = (&self.expansion, self.common());
        let graph = |kind| GraphFigures::from(facts.graph(kind));
        let depth = expansion.direct_place(0).map_or(2, |place| place.depth);
        let switched = |plan: &HostPlan| plan.view.system().count(NodeType::Nvs) > 0;
        let first = layout.node(0).map(|node| self.node_plan(node));
        Inputs {
            ranks: layout.ranks(),
            nodes: layout.nodes(),
            min_local_ranks: facts.min_local_ranks,
            max_local_ranks: facts.max_local_ranks,
            min_cc: facts.sm_min,
            max_cc: facts.sm_max,
            cpu_arch: facts.cpu_arch.map_or(Merged::Mixed, Merged::Same),
            cpu_vendor: facts.cpu_vendor.map_or(Merged::Mixed, Merged::Same),
            ring: graph(GraphKind::Ring),
            tree: graph(GraphKind::Tree),
            collnet_direct: graph(GraphKind::CollnetDirect),
            collnet_chain: graph(GraphKind::CollnetChain),
            nvls_graph: graph(GraphKind::Nvls),
            max_tree_pattern: facts.max_tree_pattern,
            channels: common.channels.count(),
            nvls: common.nvls.map(|nvls| NvlsInputs {
                channels: nvls.channels,
                heads: nvls.heads,
                chunk_bytes: nvls.chunk_size,
                tree_chunk_bytes: nvls.tree_max_chunk_size,
            }),
            collnet: common.collnet.then(|| CollnetInputs {
                heads: expansion.collnet_heads(0).len() as u32,
                chain: expansion.chains_reach_network(0),
                depth,
                gathers: true,
                reduce_scatters: true,
            }),
            spans_hosts: layout.hosts() > layout.nodes(),
            direct_peers: layout.nodes() == 1 && first.is_some_and(reaches_memory),
            min_net_bw: facts.min_net_bw,
            registers: first.is_none_or(registers),
            registered_ports: self.registered_ports(),
            direct_nvlink: layout.nodes() == 1 && first.is_some_and(joins_directly),
            blocks: first.map_or([1, 64], |first| {
                first.view.routing().settings().connect.ctas().into()
            }),
            has_nvswitch: first.is_some_and(switched),
            net_on_host: true,
            cuda_11_8: false,
        }
    }
}
