//! The hops of a channel: the pairs of neighbors that its pattern connects.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::connection::{EndPoint, NeighborPath};
use crate::graph::{GraphChannel, GraphKind, Pattern};

/// The paths of one graph: per channel, the hops that [`neighbors`] lists, in that order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GraphPaths {
    /// The graph's kind.
    pub kind: GraphKind,
    /// The hops of each channel, in the graph's channel order.
    pub channels: Vec<Vec<NeighborPath>>,
}

/// The hops of a channel inside its host, from where it enters to where it leaves.
///
/// Rings and trees connect consecutive ranks; a ring that stays in the host also connects the last
/// rank to the first. A CollNet-direct head is connected to every other rank. NVLS ranks meet in
/// the NVSwitch and have no hops.
///
/// A channel that leaves the host has a hop from its port to the first rank, and one to its port
/// from the sender: the last rank of a ring, the second of a split tree, the first of other
/// patterns.
pub fn neighbors(pattern: Pattern, channel: &GraphChannel) -> Vec<(EndPoint, EndPoint)> {
    let ranks = channel.ranks.as_slice();
    let [enter, leave] = channel.nets.unwrap_or([-1, -1]);
    let mut hops = Vec::with_capacity(ranks.len() + 2);
    let mut hop = |from, to| hops.push((from, to));
    let Some(&first) = ranks.first() else {
        return Vec::new();
    };
    if enter >= 0 {
        hop(EndPoint::Net(enter), EndPoint::Rank(first));
    }
    match pattern {
        Pattern::Ring | Pattern::BalancedTree | Pattern::SplitTree | Pattern::Tree => {
            for pair in ranks.windows(2) {
                if let [from, to] = pair {
                    hop(EndPoint::Rank(*from), EndPoint::Rank(*to));
                }
            }
        }
        Pattern::CollnetDirect => {
            for &rank in ranks.iter().skip(1) {
                hop(EndPoint::Rank(first), EndPoint::Rank(rank));
            }
        }
        Pattern::Nvls => {}
    }
    let sender = match pattern {
        Pattern::Ring => ranks.last(),
        Pattern::SplitTree => ranks.get(1),
        _ => None,
    };
    let sender = *sender.unwrap_or(&first);
    if leave >= 0 {
        hop(EndPoint::Rank(sender), EndPoint::Net(leave));
    } else if pattern == Pattern::Ring && ranks.len() > 1 {
        hop(EndPoint::Rank(sender), EndPoint::Rank(first));
    }
    hops
}
