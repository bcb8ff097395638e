//! The common part of all ranks of a job after its hosts are joined.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};
use topology::PathType;

use crate::graph::{GraphKind, Pattern};

/// Most channels of a communicator.
pub const MAX_CHANNELS: u32 = 64;

/// The common part of all ranks. With the machines and hosts of the plan it determines every rank's
/// neighbors ([`Expansion`](crate::Expansion)).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Common {
    /// The graphs in search order, merged over all nodes.
    pub graphs: Vec<GraphSummary>,
    /// Channels of collectives.
    pub channels: JobChannels,
    /// NVLink SHARP, if all nodes have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvls: Option<Nvls>,
    /// The network reduces (CollNet).
    pub collnet: bool,
    /// Point-to-point transfers.
    pub p2p: P2pChannels,
    /// Buffers of each connection.
    pub buffers: Buffers,
    /// Ranks of one host that are in different nodes share the host's memory (before NCCL 2.31, and
    /// not with `NCCL_SHM_DISABLE`).
    pub shared_memory: bool,
    /// All nodes swap paired rings, though only some found pairs (NCCL 2.27). Since then each node
    /// decides by its own graph.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub swaps_rings_together: bool,
}

impl Common {
    /// Whether a node whose own graph has this mode of crossing NICs swaps paired rings, where it
    /// has an odd number.
    pub fn swaps_rings(&self, own_cross_nic: i32) -> bool {
        let cross_nic = match self.graph(GraphKind::Ring) {
            Some(merged) if self.swaps_rings_together => merged.cross_nic,
            _ => own_cross_nic,
        };
        cross_nic == 2
    }

    /// A merged graph.
    pub fn graph(&self, kind: GraphKind) -> Option<&GraphSummary> {
        self.graphs.iter().find(|graph| graph.kind == kind)
    }

    /// Channels of a merged graph; 0 if it was not found on all nodes.
    pub fn graph_channels(&self, kind: GraphKind) -> u32 {
        self.graph(kind).map_or(0, |graph| graph.channels)
    }
}

/// A graph without its channels, as ranks compare it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphSummary {
    /// The family of algorithms.
    pub kind: GraphKind,
    /// The pattern of the first rank's graph; patterns are not compared.
    pub pattern: Pattern,
    /// Channels, the fewest of all ranks.
    pub channels: u32,
    /// All channels have the same order, on all ranks.
    pub same_channels: bool,
    /// Bandwidth of each channel inside a node, GB/s, the least.
    pub bw_intra: f32,
    /// Bandwidth of each channel to the network, GB/s, the least.
    pub bw_inter: f32,
    /// Latency of the first rank's port, µs; it is not compared.
    pub latency_inter: f32,
    /// The worst path between GPUs.
    #[schemars(with = "crate::schema::PathTypeName")]
    pub type_intra: PathType,
    /// The worst path between GPU and network port.
    #[schemars(with = "crate::schema::PathTypeName")]
    pub type_inter: PathType,
    /// NICs: 0 the same in and out, 1 any, 2 in alternating pairs; the largest.
    pub cross_nic: i32,
}

/// The channels of a communicator, and which searched channel each of them repeats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Channels")]
pub struct JobChannels {
    /// Channels of the search; as many rings as trees.
    pub searched: u32,
    /// The base channel that each channel repeats: `searched` channels with the first tree of each
    /// pair, then `searched` with the second. Both halves have the same rings.
    pub base: Vec<u8>,
}

/// The searched channel that a channel repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BaseChannel {
    /// The searched channel.
    pub searched: u32,
    /// The channel has the second tree of the pair.
    pub second_tree: bool,
}

impl JobChannels {
    /// Number of channels.
    pub const fn count(&self) -> u32 {
        self.base.len() as u32
    }

    /// The searched channel of a channel; `None` beyond the last.
    pub fn base(&self, channel: u32) -> Option<BaseChannel> {
        let base = u32::from(*self.base.get(channel as usize)?);
        let second_tree = base >= self.searched;
        Some(BaseChannel {
            searched: if second_tree {
                base - self.searched
            } else {
                base
            },
            second_tree,
        })
    }
}

/// NVLink SHARP (NVLS) of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nvls {
    /// Channels, as rank 0 decides; generations of GPUs differ.
    pub channels: u32,
    /// Chunk, bytes.
    pub chunk_size: i64,
    /// Largest chunk of the tree over nodes, bytes.
    pub tree_max_chunk_size: i64,
    /// Heads of each node; 0 switches NVLink SHARP off although the GPUs have it.
    pub heads: u32,
}

impl Nvls {
    /// The rank number of the switch behind a head.
    pub const fn pseudo_rank(ranks: u32, head: u32) -> u32 {
        ranks + 1 + head
    }
}

/// Channels, chunks and groups of point-to-point transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct P2pChannels {
    /// Channels, a power of two.
    pub channels: u32,
    /// Channels between one pair of ranks, a power of two, as rank 0 counts them. Other nodes may
    /// count their own ([`Transports::per_peer`](crate::Transports::per_peer)).
    pub per_peer: u32,
    /// Chunk, bytes.
    pub chunk_size: i64,
    /// Ranks that take part in a round together: it divides the size of every node, or all ranks
    /// are one group.
    pub group: u32,
    /// The order within a group.
    pub order: PeerOrder,
    /// Bytes per channel up to which a transfer takes LL.
    #[serde(default = "ll_bytes", skip_serializing_if = "is_ll_bytes")]
    pub ll_bytes: i64,
    /// Connections over the network have buffers for LL.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub network_ll: bool,
    /// Bytes of a chunk, if a setting gives them: NCCL does not bound them by the
    /// buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_chunk: Option<i64>,
}

/// The default of `NCCL_P2P_LL_THRESHOLD`, bytes.
pub const LL_BYTES: i64 = 16 << 10;

const fn ll_bytes() -> i64 {
    LL_BYTES
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_ll_bytes(bytes: &i64) -> bool {
    *bytes == LL_BYTES
}

/// The order in which a rank meets the other members of a group, and the channels of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PeerOrder {
    /// Distances count up; the first channel of a round has the bits of its number in reverse, and
    /// others follow (NCCL 2.28 and later).
    Counting,
    /// Distances are triangular numbers; the first channel of a round has its number, and others
    /// follow at distances with bits in reverse (NCCL 2.27).
    Triangular,
}

/// Bytes of one connection's buffers, by protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Buffers {
    /// LL.
    pub ll: i64,
    /// LL128.
    pub ll128: i64,
    /// Simple.
    pub simple: i64,
}
