//! Double binary trees over the nodes, chains inside them.

use serde::Serialize;

use super::Expansion;
use crate::graph::Pattern;
use crate::layout::NodePlace;

/// A node's links in one tree over nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TreeLinks {
    /// The node above; `None` for the root.
    pub parent: Option<u32>,
    /// The two children.
    pub children: [Option<u32>; 2],
    /// Its index among its parent's children; 0 for the root.
    pub place: usize,
}

impl TreeLinks {
    fn map(self, new: impl Fn(u32) -> u32) -> Self {
        Self {
            parent: self.parent.map(&new),
            children: self.children.map(|child| child.map(&new)),
            place: self.place,
        }
    }
}

/// The binary tree over `nodes` nodes in which node 0 is the root, odd nodes are leaves, and a
/// node's subtree is a range.
fn binary_tree(nodes: u32, node: u32) -> TreeLinks {
    if node == 0 {
        // The only child is the largest power of two below `nodes`.
        let child = (nodes > 1).then(|| 1 << (31 - (nodes - 1).leading_zeros()));
        return TreeLinks {
            parent: None,
            children: [None, child],
            place: 0,
        };
    }
    let bit = 1u32 << node.trailing_zeros();
    let raised = u64::from(node ^ bit) | u64::from(bit) << 1;
    // If the regular parent does not exist, the node one level up is the parent.
    let parent = if raised >= u64::from(nodes) {
        node ^ bit
    } else {
        raised as u32
    };
    let mut children = [None, None];
    let mut step = bit >> 1;
    if step > 0 {
        children[0] = Some(node - step);
        while step > 0 && node.saturating_add(step) >= nodes {
            step >>= 1;
        }
        children[1] = (step > 0).then(|| node + step);
    }
    TreeLinks {
        parent: Some(parent),
        children,
        place: usize::from(node > parent),
    }
}

/// The links of a node in the two trees of a pair; none beyond the last node.
///
/// The second tree is the first mirrored (even number of nodes) or shifted by one (odd), so that,
/// if possible, an inner node of one tree is a leaf of the other.
pub fn double_tree(nodes: u32, node: u32) -> [TreeLinks; 2] {
    if node >= nodes {
        return [TreeLinks::default(); 2];
    }
    let first = binary_tree(nodes, node);
    let second = if nodes.is_multiple_of(2) {
        binary_tree(nodes, nodes - 1 - node).map(|other| nodes - 1 - other)
    } else {
        binary_tree(nodes, (node + nodes - 1) % nodes).map(|other| (other + 1) % nodes)
    };
    [first, second]
}

/// A rank's place in the tree of one channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct TreePlace {
    /// The rank above; `None` for the root.
    pub up: Option<u32>,
    /// The ranks below, in NCCL's slots.
    pub down: [Option<u32>; 3],
}

impl TreePlace {
    /// Takes the first free slot. There always is one: a chain gives one child and a node's tree
    /// two.
    fn append(&mut self, child: u32) {
        if let Some(slot) = self.down.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some(child);
        }
    }
}

/// The GPU of a node's chain to which a tree link between nodes is attached.
#[derive(Debug, Clone, Copy)]
enum Attachment {
    Parent,
    Child(usize),
}

impl Expansion {
    /// The rank of a node at which one of its tree links ends.
    fn attached(&self, node: NodePlace, searched: u32, attachment: Attachment) -> Option<u32> {
        let tree = &self.parts(node).tree;
        let at = match (attachment, tree.pattern) {
            (Attachment::Child(0), Pattern::BalancedTree | Pattern::SplitTree) => 1,
            (Attachment::Child(1), Pattern::SplitTree) => 1,
            _ => 0,
        };
        let chain = tree.order(searched);
        chain
            .get(at)
            .or_else(|| chain.first())
            .map(|local| self.layout.rank_at(node, *local))
    }

    /// A rank's neighbors in the tree of a channel; `None` beyond the last rank or channel.
    pub fn tree_place(&self, rank: u32, channel: u32) -> Option<TreePlace> {
        let base = self.common.channels.base(channel)?;
        let place = self.layout.rank(rank)?;
        let node = place.node;
        let tree = &self.parts(node).tree;
        let chain = tree.order(base.searched);
        let at = tree.position(base.searched, place.member) as usize;
        let own = |at: usize| chain.get(at).map(|local| self.layout.rank_at(node, *local));
        let mut found = TreePlace {
            up: at.checked_sub(1).and_then(own),
            down: [own(at + 1), None, None],
        };
        let links = double_tree(self.layout.nodes(), node.node)[usize::from(base.second_tree)];
        let of_node = |node: u32, attachment| {
            self.attached(self.layout.node(node)?, base.searched, attachment)
        };
        if let Some(parent) = links.parent
            && self.attached(node, base.searched, Attachment::Parent) == Some(rank)
        {
            found.up = of_node(parent, Attachment::Child(links.place));
        }
        for (index, child) in links.children.into_iter().enumerate() {
            if let Some(child) = child
                && self.attached(node, base.searched, Attachment::Child(index)) == Some(rank)
                && let Some(child) = of_node(child, Attachment::Parent)
            {
                found.append(child);
            }
        }
        Some(found)
    }

    /// Links between a leaf and the root of a tree, as NCCL's cost model counts them.
    pub fn tree_depth(&self) -> u32 {
        let (ranks, nodes) = (self.layout.ranks().max(1), self.layout.nodes().max(1));
        ranks / nodes - 1 + nodes.ilog2()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_trees() {
        let links = |parent, left, right, place| TreeLinks {
            parent,
            children: [left, right],
            place,
        };
        assert_eq!(binary_tree(1, 0), links(None, None, None, 0));
        assert_eq!(binary_tree(2, 1), links(Some(0), None, None, 1));
        assert_eq!(binary_tree(4, 0), links(None, None, Some(2), 0));
        assert_eq!(binary_tree(4, 2), links(Some(0), Some(1), Some(3), 1));
        assert_eq!(binary_tree(4, 1), links(Some(2), None, None, 0));
        assert_eq!(binary_tree(5, 4), links(Some(0), Some(2), None, 1));
        assert_eq!(double_tree(4, 1)[1], links(Some(3), Some(2), Some(0), 1));
        assert_eq!(double_tree(5, 2)[1], links(Some(3), None, None, 0));
    }

    #[test]
    fn links_agree_at_both_ends() {
        for nodes in 1..70 {
            for tree in 0..2 {
                let mut roots = 0;
                for node in 0..nodes {
                    let links = double_tree(nodes, node)[tree];
                    match links.parent {
                        None => roots += 1,
                        Some(parent) => {
                            assert_eq!(
                                double_tree(nodes, parent)[tree].children[links.place],
                                Some(node),
                                "{nodes}"
                            );
                        }
                    }
                }
                assert_eq!(roots, 1);
            }
        }
    }
}
