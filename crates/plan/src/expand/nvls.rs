//! NVLink SHARP over nodes: heads, and trees over them.

use serde::Serialize;

use super::Expansion;
use super::trees::double_tree;

/// A rank's place in NVLink SHARP. Rank numbers beyond those of the machine are the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct NvlsPlace {
    /// Which head the rank is.
    pub head: Option<u32>,
    /// The heads above in the two trees over nodes; even channels use the first.
    pub tree_up: [Option<u32>; 2],
    /// The heads below in the two trees, in NCCL's slots after the switch.
    pub tree_down: [[Option<u32>; 2]; 2],
}

impl Expansion {
    /// A rank's place in NVLink SHARP; `None` without it, or beyond the last rank.
    pub fn nvls_place(&self, rank: u32) -> Option<NvlsPlace> {
        let nvls = self.common.nvls.filter(|nvls| nvls.heads > 0)?;
        let place = self.layout.rank(rank)?;
        let heads = self
            .parts(place.node)
            .nvls_heads
            .get(..nvls.heads as usize)?;
        let head = heads.iter().position(|head| *head == place.local);
        let mut found = NvlsPlace {
            head: head.map(|head| head as u32),
            tree_up: [None; 2],
            tree_down: [[None; 2]; 2],
        };
        let nodes = self.layout.nodes();
        if let Some(head) = head.filter(|_| nodes > 1) {
            let head_of = |node: u32| {
                let node = self.layout.node(node)?;
                self.parts(node)
                    .nvls_heads
                    .get(head)
                    .map(|local| self.layout.rank_at(node, *local))
            };
            for (tree, links) in double_tree(nodes, place.node.node).into_iter().enumerate() {
                found.tree_up[tree] = links.parent.and_then(head_of);
                let below = links.children.into_iter().flatten().filter_map(head_of);
                for (slot, child) in found.tree_down[tree].iter_mut().zip(below) {
                    *slot = Some(child);
                }
            }
        }
        Some(found)
    }
}
