//! Channel graphs: the order of one host's GPUs in each channel.
//!
//! The search finds one graph for each family of algorithms, before hosts are joined.

use std::fmt;

use crate::JsonSchema;
use serde::{Deserialize, Serialize};
use topology::PathType;

/// The family of algorithms that a graph serves. The numbers are the ids of NCCL's graph files.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum GraphKind {
    /// Rings.
    Ring = 0,
    /// Trees.
    Tree = 1,
    /// Chains towards a network that reduces (CollNet, SHARP).
    CollnetChain = 2,
    /// Multicast and reduction in the NVSwitch (NVLink SHARP).
    Nvls = 3,
    /// One GPU per NIC collects for a network that reduces.
    CollnetDirect = 4,
}

impl GraphKind {
    /// All kinds in the order in which they are searched.
    pub const IN_SEARCH_ORDER: [Self; 5] = [
        Self::Ring,
        Self::Tree,
        Self::CollnetChain,
        Self::CollnetDirect,
        Self::Nvls,
    ];

    /// The name used in plans and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Tree => "tree",
            Self::CollnetChain => "collnet-chain",
            Self::Nvls => "nvls",
            Self::CollnetDirect => "collnet-direct",
        }
    }
}

impl fmt::Display for GraphKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How a channel orders the GPUs and where it reaches the network. The numbers are NCCL's.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// A chain whose first GPU holds the parent and one child, its second the other child.
    BalancedTree = 1,
    /// A chain whose first GPU holds the parent, its second both children.
    SplitTree = 2,
    /// A chain whose first GPU holds parent and children.
    Tree = 3,
    /// A closed ring.
    Ring = 4,
    /// A head GPU in front of the NVSwitch.
    Nvls = 5,
    /// A head GPU in front of all others.
    CollnetDirect = 6,
}

impl Pattern {
    /// The pattern with NCCL's number.
    pub const fn from_number(number: i32) -> Option<Self> {
        Some(match number {
            1 => Self::BalancedTree,
            2 => Self::SplitTree,
            3 => Self::Tree,
            4 => Self::Ring,
            5 => Self::Nvls,
            6 => Self::CollnetDirect,
            _ => return None,
        })
    }

    /// The name used in plans and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BalancedTree => "balanced-tree",
            Self::SplitTree => "split-tree",
            Self::Tree => "tree",
            Self::Ring => "ring",
            Self::Nvls => "nvls",
            Self::CollnetDirect => "collnet-direct",
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One channel of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphChannel {
    /// Ranks in channel order. For NVLS only the first one, the head.
    pub ranks: Vec<i32>,
    /// NCCL ids of the ports where the channel enters and leaves the host, if it does; -1 is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nets: Option<[i64; 2]>,
}

/// The result of one search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// The kind of the search.
    pub kind: GraphKind,
    /// The pattern of its channels.
    pub pattern: Pattern,
    /// Channels may enter and leave through different NICs: 0 no, 1 yes, 2 in alternating pairs.
    pub cross_nic: i32,
    /// All channels have the same order.
    pub same_channels: bool,
    /// Bandwidth of each channel inside the host, GB/s.
    pub bw_intra: f32,
    /// Bandwidth of each channel to the network, GB/s.
    pub bw_inter: f32,
    /// Latency of the network port, µs.
    pub latency_inter: f32,
    /// The worst path between GPUs that is used.
    #[schemars(with = "crate::schema::PathTypeName")]
    pub type_intra: PathType,
    /// The worst path between GPU and network port that is used.
    #[schemars(with = "crate::schema::PathTypeName")]
    pub type_inter: PathType,
    /// The channels.
    pub channels: Vec<GraphChannel>,
}

impl Graph {
    /// A graph without channels.
    pub const fn empty(kind: GraphKind, pattern: Pattern) -> Self {
        Self {
            kind,
            pattern,
            cross_nic: 0,
            same_channels: false,
            bw_intra: 0.0,
            bw_inter: 0.0,
            latency_inter: 0.0,
            type_intra: PathType::Loc,
            type_inter: PathType::Loc,
            channels: Vec::new(),
        }
    }

    /// Bandwidth of all channels together inside the host, GB/s.
    pub fn total_bw_intra(&self) -> f32 {
        self.channels.len() as f32 * self.bw_intra
    }
}
