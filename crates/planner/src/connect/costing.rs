//! The inputs of the cost model for a joined job.

use plan::{GraphKind, GraphSummary};
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

impl JobPlan {
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
