//! A tree over all ranks, and why rings and trees cannot be used.

use crate::collective::Collective;

/// Most ranks: pieces of a window are numbered with 16 bits.
pub(crate) const MOST_RANKS: u32 = 65_535;

/// Most channels.
pub(crate) const MOST_CHANNELS: usize = 256;

/// A tree over all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// The parent of each rank; `None` for the root.
    pub parents: Vec<Option<u32>>,
}

/// Why no programs can be written over these rings and trees.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChannelsError {
    /// No ranks, or too many.
    #[error("programs are written for 1 to {most} ranks, not {ranks}", most = MOST_RANKS)]
    Ranks {
        /// Ranks of the communicator.
        ranks: u32,
    },
    /// Too few or too many channels, or not as many rings as trees.
    #[error(
        "expected 1 to {most} channels with a ring and a tree each, found {rings} rings and {trees} trees",
        most = MOST_CHANNELS
    )]
    Count {
        /// Rings.
        rings: usize,
        /// Trees.
        trees: usize,
    },
    /// Not one host for each rank.
    #[error("expected the host of each of the {ranks} ranks, found {found}")]
    Hosts {
        /// Ranks of the communicator.
        ranks: u32,
        /// For how many ranks a host is given.
        found: usize,
    },
    /// A ring does not visit each rank once.
    #[error("the ring of channel {channel} does not visit each of the {ranks} ranks once")]
    Ring {
        /// The channel.
        channel: usize,
        /// Ranks of the communicator.
        ranks: u32,
    },
    /// The parents do not form a tree.
    #[error(
        "the tree of channel {channel} does not join all {ranks} ranks: from rank {rank} no way leads up to its root"
    )]
    Tree {
        /// The channel.
        channel: usize,
        /// Ranks of the communicator.
        ranks: u32,
        /// The rank that does not reach the root.
        rank: u32,
    },
    /// The trees of a collective cannot be used.
    #[error("the forest for {collective}, channel {channel}: {problem}")]
    Forest {
        /// The collective.
        collective: Collective,
        /// The channel.
        channel: usize,
        /// The fault.
        problem: String,
    },
}

impl Tree {
    /// One of the two trees of NCCL's double binary tree (`ncclGetDtree`).
    ///
    /// The inner ranks of the first are the even ones. The second is its mirror image (for an odd
    /// number of ranks, its rotation), so that the leaves of one are inner ranks of the other.
    pub fn binary(ranks: u32, mirrored: bool) -> Self {
        let there = |rank: u32| match (mirrored, ranks % 2) {
            (false, _) => rank,
            (true, 0) => ranks - 1 - rank,
            (true, _) => (rank + ranks - 1) % ranks,
        };
        let back = |rank: u32| match (mirrored, ranks % 2) {
            (false, _) => rank,
            (true, 0) => ranks - 1 - rank,
            (true, _) => (rank + 1) % ranks,
        };
        let parent = |rank: u32| {
            if rank == 0 {
                return None;
            }
            let bit = rank & rank.wrapping_neg();
            let near = (rank ^ bit) | (bit << 1);
            Some(if near < ranks { near } else { rank ^ bit })
        };
        Self {
            parents: (0..ranks)
                .map(|rank| parent(there(rank)).map(back))
                .collect(),
        }
    }

    /// The rank without a parent.
    pub fn root(&self) -> u32 {
        self.parents
            .iter()
            .zip(0..)
            .find(|(parent, _)| parent.is_none())
            .map_or(0, |(_, rank)| rank)
    }

    /// The same links with another root.
    pub fn rooted(&self, root: u32) -> Self {
        let mut parents = self.parents.clone();
        // Only the links between the old and the new root change direction.
        let (mut below, mut at) = (None, Some(root));
        while let Some(rank) = at {
            at = std::mem::replace(&mut parents[rank as usize], below);
            below = Some(rank);
        }
        Self { parents }
    }

    /// The children of each rank, in rank order.
    pub fn children(&self) -> Vec<Vec<u32>> {
        let mut children = vec![Vec::new(); self.parents.len()];
        for (parent, rank) in self.parents.iter().zip(0..) {
            if let Some(parent) = parent {
                children[*parent as usize].push(rank);
            }
        }
        children
    }

    /// The links that join hosts, if they are a tree.
    pub(crate) fn between_hosts(&self, host_of: &[u32], hosts: u32) -> Option<Self> {
        let mut parents = vec![None; hosts as usize];
        for (parent, host) in self.parents.iter().zip(host_of) {
            let above = parent.map(|parent| host_of[parent as usize]);
            if let Some(above) = above.filter(|above| above != host)
                && parents[*host as usize].replace(above).is_some()
            {
                return None;
            }
        }
        let tree = Self { parents };
        tree.astray(hosts).is_none().then_some(tree)
    }

    /// A rank that does not reach the single root by its parents.
    pub(crate) fn astray(&self, ranks: u32) -> Option<u32> {
        if self.parents.len() != ranks as usize {
            return Some(0);
        }
        let roots = self.parents.iter().filter(|parent| parent.is_none());
        if roots.count() != 1 {
            let second = |(parent, _): &(&Option<u32>, u32)| parent.is_none();
            let mut roots = self.parents.iter().zip(0..).filter(second);
            return Some(roots.nth(1).map_or(0, |(_, rank)| rank));
        }
        let root = self.root();
        let mut reaches = vec![false; ranks as usize];
        reaches[root as usize] = true;
        for start in 0..ranks {
            let (mut path, mut at) = (Vec::new(), start);
            while !reaches[at as usize] {
                path.push(at);
                match self.parents[at as usize] {
                    Some(parent) if parent < ranks && path.len() <= ranks as usize => at = parent,
                    _ => return Some(start),
                }
            }
            for rank in path {
                reaches[rank as usize] = true;
            }
        }
        None
    }
}
