//! Machines with eight H100, in figures.

use plan::Pattern;
use planner::cost::{GraphFigures, Inputs, Merged, NvlsInputs};
use topology::{CpuArch, CpuVendor, PathType};

/// A graph over NVLink with a NIC beside each GPU.
pub(crate) fn graph(channels: u32, bw_intra: f32, bw_inter: f32) -> GraphFigures {
    GraphFigures {
        channels,
        bw_intra,
        bw_inter,
        type_intra: PathType::Nvl,
        type_inter: PathType::Pix,
        ..GraphFigures::NONE
    }
}

/// `nodes` machines with eight H100 and an NVSwitch.
pub(crate) fn hopper(nodes: u32) -> Inputs {
    Inputs {
        ranks: 8 * nodes,
        nodes,
        min_local_ranks: 8,
        max_local_ranks: 8,
        min_cc: 90,
        max_cc: 90,
        cpu_arch: Merged::Same(CpuArch::X86),
        cpu_vendor: Merged::Same(CpuVendor::Intel),
        ring: graph(12, 30.0, 30.0),
        tree: graph(12, 30.0, 30.0),
        collnet_direct: GraphFigures::NONE,
        collnet_chain: GraphFigures::NONE,
        nvls_graph: graph(8, 40.0, 60.0),
        max_tree_pattern: Pattern::BalancedTree,
        channels: 24,
        nvls: Some(NvlsInputs {
            channels: 16,
            heads: 8,
            chunk_bytes: 131_072,
            tree_chunk_bytes: 131_072,
        }),
        collnet: None,
        direct_nvlink: nodes == 1,
        spans_hosts: false,
        direct_peers: nodes == 1,
        min_net_bw: 48.0,
        registers: true,
        registered_ports: None,
        blocks: [1, 64],
        has_nvswitch: true,
        net_on_host: true,
        cuda_11_8: false,
    }
}
