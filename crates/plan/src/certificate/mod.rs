//! Proofs that no schedule of a collective is faster than a bound, and that forests reach it.
//!
//! A [`Certificate`] holds the capacity graph of a job and, for each collective, a [`Bound`] with
//! its [`Proof`] and, where one is known, a [`Forest`] that runs at a bandwidth. [`check()`]
//! repeats the arithmetic: it sums links and counts ranks. It knows no flow, and uses nothing of
//! the search that made the certificate (crate `bounds`).
//!
//! All bandwidths are whole numbers of 0.1 MB/s, all bounds are exact fractions of them.
//!
//! In reading order: [`graph`], [`cut`], [`lengths`], [`forest`], [`value`],
//! [`check`](mod@check), [`json`].

mod bounded;
pub mod check;
pub mod cut;
pub mod error;
pub mod forest;
pub mod graph;
pub mod json;
pub mod lengths;
pub mod value;

use crate::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;

pub use check::{check, reached, tightness};
pub use cut::{Crossing, Cut, Direction, Part, Side};
pub use error::CertificateError;
pub use forest::{Edge, Forest, Route, Tree};
pub use graph::{CapacityGraph, DirectedLink, HostClass, LinkSet, UNITS, Vertex, WrittenOut};
#[cfg(feature = "schema")]
pub use json::certificate_schema;
pub use lengths::Lengths;
pub use value::Fraction;

/// The subject of a bound.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Every rank's data to all.
    AllGather,
    /// To each rank its piece of the reduction.
    ReduceScatter,
    /// The whole reduction to all; switches and the network reduce nothing.
    AllReduce,
    /// The whole reduction to all; switches and the network may reduce and multicast (NVLS,
    /// SHARP).
    AllReduceInNetwork,
    /// Rank 0's data to all.
    Broadcast,
    /// The reduction of all ranks' data to rank 0.
    Reduce,
    /// From every rank a piece to every other.
    AllToAll,
}

impl Operation {
    /// All operations, in the order of pages.
    pub const ALL: [Self; 7] = [
        Self::AllGather,
        Self::ReduceScatter,
        Self::AllReduce,
        Self::AllReduceInNetwork,
        Self::Broadcast,
        Self::Reduce,
        Self::AllToAll,
    ];

    /// The name on pages and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllGather => "all-gather",
            Self::ReduceScatter => "reduce-scatter",
            Self::AllReduce => "all-reduce",
            Self::AllReduceInNetwork => "all-reduce-in-network",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::AllToAll => "all-to-all",
        }
    }

    /// Whether one rank, the root, has or gets the whole message.
    pub const fn has_root(self) -> bool {
        matches!(self, Self::Broadcast | Self::Reduce)
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Bounds of a job with their proofs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// The fingerprint of the plan's input: machines, settings and request.
    pub fingerprint: Digest,
    /// Which links the bounds count.
    pub links: LinkSet,
    /// The links with their bandwidths.
    pub graph: CapacityGraph,
    /// The bounds, each operation once.
    pub bounds: Vec<Bound>,
}

/// The most bandwidth that any schedule of a collective reaches for long messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// The operation.
    pub operation: Operation,
    /// The bound: bus bandwidth as nccl-tests defines it, 0.1 MB/s.
    pub bandwidth: Fraction,
    /// Why nothing is faster.
    pub proof: Proof,
    /// The bus bandwidth that the forests below reach, 0.1 MB/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<Fraction>,
    /// Trees that reach it: one forest, or for all-reduce one that reduces and one that spreads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forests: Vec<Forest>,
}

/// Why no schedule is faster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Proof {
    /// The time of the messages that must cross these links.
    Cut(Cut),
    /// Each element must arrive 2(k−1) times in k sets of ranks that have all ranks between them.
    Partition {
        /// `In`: links into the sets are counted; `Out`: links out of them.
        direction: Direction,
        /// The sets.
        parts: Vec<Part>,
    },
    /// Links whose lengths every way of routing the data passes.
    Lengths(Vec<Lengths>),
}
