//! The trees of a request, with the root of the collective at the top.

use super::request::ProgramRequest;
use crate::{Schedule, Tree};

pub(super) struct Trees {
    channels: Vec<RootedTree>,
}

/// A tree with the children of each rank.
pub(super) struct RootedTree {
    pub parents: Vec<Option<u32>>,
    pub children: Vec<Vec<u32>>,
}

impl Trees {
    /// Without channels if the algorithm uses no trees.
    pub(super) fn of(request: &ProgramRequest<'_>) -> Self {
        if request.schedule != Schedule::Tree {
            return Self {
                channels: Vec::new(),
            };
        }
        let rooted = |tree: &Tree| {
            if request.collective.has_root() {
                tree.rooted(request.root)
            } else {
                tree.clone()
            }
        };
        let hung = request.channels.trees().iter();
        let hung = hung.map(|tree| RootedTree::of(rooted(tree)));
        Self {
            channels: hung.collect(),
        }
    }

    pub(super) fn of_channel(&self, channel: u16) -> &RootedTree {
        &self.channels[channel as usize]
    }
}

impl RootedTree {
    pub(super) fn of(tree: Tree) -> Self {
        Self {
            children: tree.children(),
            parents: tree.parents,
        }
    }

    /// A rank and its descendants, depth first: the order of blocks on the link to its parent.
    pub(super) fn below(&self, rank: u32) -> Vec<u32> {
        let (mut order, mut next) = (Vec::new(), vec![rank]);
        while let Some(rank) = next.pop() {
            order.push(rank);
            next.extend(self.children[rank as usize].iter().rev());
        }
        order
    }
}
