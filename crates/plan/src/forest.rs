//! Forests of a plan: trees over the job's ranks, each with its share of the message.

use crate::JsonSchema;
use program::{ChannelsError, Collective, Forest, ForestChannel, ForestTree};
use serde::{Deserialize, Serialize};

use crate::certificate::Fraction;

/// Trees for one collective, which `topo run --algorithm forest` uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlannedForest {
    /// The collective. Broadcast and reduce have rank 0 as root; for other roots the trees are
    /// turned.
    pub collective: Collective,
    /// The bus bandwidth that the trees reach by the links' bandwidths, 0.1 MB/s.
    pub bandwidth: Fraction,
    /// The bus bandwidth that no schedule exceeds, 0.1 MB/s.
    pub bound: Fraction,
    /// Parts of each block, with the trees that move them.
    pub channels: Vec<PlannedTrees>,
}

/// Trees that move one part of each block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlannedTrees {
    /// The part of each block, relative to the other shares.
    pub share: u32,
    /// All-gather and reduce-scatter: the tree of each rank's block, in rank order. All-reduce: the
    /// trees of equal pieces. Broadcast and reduce: one tree.
    pub trees: Vec<PlannedTree>,
}

/// A tree: for each rank its parent, and for the root none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlannedTree {
    /// Towards the root, for collectives that reduce.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up: Option<Vec<Option<u32>>>,
    /// From the root, for collectives that spread data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<Vec<Option<u32>>>,
}

impl PlannedForest {
    /// The trees over which programs are written.
    ///
    /// # Errors
    /// They do not join all ranks.
    pub fn program_forest(&self, ranks: u32) -> Result<Forest, ChannelsError> {
        let links = |parents: &Vec<Option<u32>>| program::Tree {
            parents: parents.clone(),
        };
        let tree = |tree: &PlannedTree| ForestTree {
            up: tree.up.as_ref().map(links),
            down: tree.down.as_ref().map(links),
        };
        let channels = self.channels.iter().map(|channel| ForestChannel {
            share: channel.share,
            trees: channel.trees.iter().map(tree).collect(),
        });
        Forest::new(self.collective, ranks, channels.collect())
    }
}
