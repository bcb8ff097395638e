//! The inputs of the cost model: plain values of a communicator, so that the model depends on
//! nothing else.

use plan::{Algorithm, Graph, Pattern};
use topology::{CpuArch, CpuVendor, PathType};

/// A property of all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merged<T> {
    /// All ranks have this.
    Same(T),
    /// Ranks differ.
    Mixed,
}

impl<T: PartialEq> Merged<T> {
    /// Whether all ranks have this.
    pub fn is(&self, value: T) -> bool {
        *self == Self::Same(value)
    }

    /// Joins what each rank has; `None` without ranks.
    pub fn of(values: impl IntoIterator<Item = T>) -> Option<Self> {
        let mut values = values.into_iter();
        let first = values.next()?;
        Some(if values.all(|value| value == first) {
            Self::Same(first)
        } else {
            Self::Mixed
        })
    }
}

/// One graph in figures, after the ranks' graphs were merged and before channels are doubled
/// (NCCL's `graphInfo`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GraphFigures {
    /// Channels; 0 where the graph was not searched or not found.
    pub channels: u32,
    /// All channels have the same order.
    pub same_channels: bool,
    /// Bandwidth of each channel inside the node, GB/s.
    pub bw_intra: f32,
    /// Bandwidth of each channel to the network, GB/s.
    pub bw_inter: f32,
    /// Latency of the network port, µs.
    pub latency_inter: f32,
    /// The worst path between GPUs.
    pub type_intra: PathType,
    /// The worst path between GPU and port.
    pub type_inter: PathType,
}

impl GraphFigures {
    /// The figures of a graph that was not searched.
    pub const NONE: Self = Self {
        channels: 0,
        same_channels: false,
        bw_intra: 0.0,
        bw_inter: 0.0,
        latency_inter: 0.0,
        type_intra: PathType::Loc,
        type_inter: PathType::Loc,
    };
}

impl From<&Graph> for GraphFigures {
    fn from(graph: &Graph) -> Self {
        Self {
            channels: graph.channels.len() as u32,
            same_channels: graph.same_channels,
            bw_intra: graph.bw_intra,
            bw_inter: graph.bw_inter,
            latency_inter: graph.latency_inter,
            type_intra: graph.type_intra,
            type_inter: graph.type_inter,
        }
    }
}

/// NVSwitches that reduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NvlsInputs {
    /// Channels (NCCL's `nvlsChannels`).
    pub channels: u32,
    /// Heads: GPUs of a node that each own a part of the message.
    pub heads: u32,
    /// Largest chunk, bytes.
    pub chunk_bytes: i64,
    /// Largest chunk with trees between nodes, bytes.
    pub tree_chunk_bytes: i64,
}

/// A network that reduces, after every condition for its use was met (NCCL's `collnetEnable`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollnetInputs {
    /// Heads of CollNetDirect.
    pub heads: u32,
    /// Every head of the chains is a head of CollNetDirect too (NCCL's `collNetChainSupport`).
    pub chain: bool,
    /// Levels of CollNetDirect: 1 when each GPU is alone, otherwise 2.
    pub depth: u32,
    /// The plug-in gathers (it has `iallgather`).
    pub gathers: bool,
    /// The plug-in reduces and scatters (it has `ireducescatter`).
    pub reduce_scatters: bool,
}

/// The inputs of the cost model for one communicator.
#[derive(Debug, Clone, PartialEq)]
pub struct Inputs {
    /// Ranks.
    pub ranks: u32,
    /// Nodes, as the ranks were numbered.
    pub nodes: u32,
    /// Fewest ranks of a node.
    pub min_local_ranks: u32,
    /// Most ranks of a node.
    pub max_local_ranks: u32,
    /// Smallest compute capability × 10.
    pub min_cc: i32,
    /// Largest compute capability × 10.
    pub max_cc: i32,
    /// Processors' architecture.
    pub cpu_arch: Merged<CpuArch>,
    /// Processors' vendor.
    pub cpu_vendor: Merged<CpuVendor>,
    /// The ring graph.
    pub ring: GraphFigures,
    /// The tree graph.
    pub tree: GraphFigures,
    /// The graph of CollNetDirect.
    pub collnet_direct: GraphFigures,
    /// The graph of CollNetChain.
    pub collnet_chain: GraphFigures,
    /// The NVLS graph.
    pub nvls_graph: GraphFigures,
    /// The largest of all ranks' tree patterns (by NCCL's numbers).
    pub max_tree_pattern: Pattern,
    /// Channels of collectives, after doubling and limits (NCCL's `collChannels`).
    pub channels: u32,
    /// NVSwitches that reduce; `None` when NVLS is not supported or was disabled.
    pub nvls: Option<NvlsInputs>,
    /// A network that reduces; `None` when it is disabled.
    pub collnet: Option<CollnetInputs>,
    /// All GPUs are one node, and NVLink joins each two of them without another GPU between.
    pub direct_nvlink: bool,
    /// A node has several hosts (MNNVL).
    pub spans_hosts: bool,
    /// All GPUs are one node and reach each other's memory, without another GPU between.
    pub direct_peers: bool,
    /// Bandwidth of the slowest port, GB/s (NCCL's `minNetBw`); 0 without ports.
    pub min_net_bw: f32,
    /// Programs can register buffers.
    pub registers: bool,
    /// Ports of a GPU that reach its registered buffers with GPUDirect RDMA, without another GPU;
    /// `None` unless each node has one GPU, and all their rings' ports do.
    pub registered_ports: Option<u32>,
    /// Fewest and most thread blocks of a kernel.
    pub blocks: [u32; 2],
    /// The machine of the first rank has an NVSwitch.
    pub has_nvswitch: bool,
    /// The network plug-in works on the host, and does not run on the GPU.
    pub net_on_host: bool,
    /// CUDA 11.8, whose compiler makes LL128 unsafe for rings of two Hopper GPUs.
    pub cuda_11_8: bool,
}

impl Inputs {
    /// The graph of an algorithm.
    pub const fn graph(&self, algorithm: Algorithm) -> &GraphFigures {
        match algorithm {
            Algorithm::Ring => &self.ring,
            Algorithm::Tree | Algorithm::Pat => &self.tree,
            Algorithm::CollNetDirect => &self.collnet_direct,
            Algorithm::CollNetChain => &self.collnet_chain,
            Algorithm::Nvls | Algorithm::NvlsTree => &self.nvls_graph,
        }
    }

    /// Ranks per node, on average, as NCCL rounds it.
    pub(super) fn ranks_per_node(&self) -> f32 {
        self.ranks as f32 / self.nodes.max(1) as f32
    }

    /// ⌊log₂ nodes⌋.
    pub(super) fn levels(&self) -> u32 {
        self.nodes.max(1).ilog2()
    }
}
