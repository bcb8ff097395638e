//! The path between two neighbors of a channel.

use std::fmt;

use crate::JsonSchema;
use serde::{Deserialize, Serialize};
use topology::PathType;

/// One end of a hop: a rank of the machine, or a network port.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum EndPoint {
    /// A rank, counted from the machine's first one.
    Rank(i32),
    /// A network port, by its id ([`MachineNic::id`](crate::MachineNic::id)).
    Net(i64),
}

impl fmt::Display for EndPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rank(rank) => write!(f, "rank {rank}"),
            Self::Net(id) => write!(f, "net {id:#x}"),
        }
    }
}

/// The path of a channel's hop through the machine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NeighborPath {
    /// Where the hop begins.
    pub from: EndPoint,
    /// Where it ends.
    pub to: EndPoint,
    /// How the path crosses the machine.
    #[serde(rename = "type")]
    #[schemars(with = "crate::schema::PathTypeName")]
    pub path_type: PathType,
    /// Bandwidth of the path without other traffic, GB/s.
    pub bw: f32,
}
