//! Forests: trees that share a message, over which programs are written.

use crate::collective::Collective;
use crate::tree::{ChannelsError, Tree};

/// Trees of one collective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forest {
    collective: Collective,
    ranks: u32,
    channels: Vec<ForestChannel>,
}

/// Trees that work on one part of each block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForestChannel {
    /// The part of each block, relative to the shares of the other channels.
    pub share: u32,
    /// All-gather and reduce-scatter: the tree of each rank's block, in rank order. All-reduce: the
    /// tree of each piece, all of equal length. Broadcast and reduce: one tree.
    pub trees: Vec<ForestTree>,
}

/// The links of one tree. Where data goes both up and down, both have the same root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForestTree {
    /// Towards the root, for collectives that reduce.
    pub up: Option<Tree>,
    /// From the root, for collectives that spread data.
    pub down: Option<Tree>,
}

impl ForestTree {
    /// The rank at the top.
    pub fn root(&self) -> u32 {
        self.down
            .as_ref()
            .or(self.up.as_ref())
            .map_or(0, Tree::root)
    }
}

impl Forest {
    /// Most channels. Each has up to two lanes, and a GPU runs each lane in a block of its own.
    pub const MOST_CHANNELS: usize = 64;

    /// Most trees times ranks.
    pub(crate) const MOST_LINKS: usize = 1 << 22;

    /// Checks and keeps the trees of a collective.
    ///
    /// # Errors
    /// A tree does not join all ranks, has the wrong root or the wrong direction, or there are none
    /// or too many.
    pub fn new(
        collective: Collective,
        ranks: u32,
        channels: Vec<ForestChannel>,
    ) -> Result<Self, ChannelsError> {
        let refuse = |channel, problem: String| {
            Err(ChannelsError::Forest {
                collective,
                channel,
                problem,
            })
        };
        let Some((up, down)) = directions(collective) else {
            return refuse(0, "there are no trees for this collective".to_owned());
        };
        let trees = channels.first().map_or(0, |channel| channel.trees.len());
        let links = channels.len() * trees * ranks as usize;
        if trees == 0 || channels.len() > Self::MOST_CHANNELS || links > Self::MOST_LINKS {
            let problem = format!(
                "{} channels of {trees} trees; expected 1 to {} channels with trees",
                channels.len(),
                Self::MOST_CHANNELS
            );
            return refuse(0, problem);
        }
        let wanted = match collective {
            Collective::AllGather | Collective::ReduceScatter => ranks as usize,
            Collective::AllReduce => trees,
            _ => 1,
        };
        let mut shares = 0u32;
        for (at, channel) in channels.iter().enumerate() {
            if channel.trees.len() != wanted {
                let found = channel.trees.len();
                return refuse(at, format!("{found} trees; expected {wanted}"));
            }
            let sum = shares.checked_add(channel.share);
            let Some(sum) = sum.filter(|_| channel.share > 0) else {
                return refuse(at, "its share is 0, or the sum is too large".to_owned());
            };
            shares = sum;
            for (number, tree) in channel.trees.iter().enumerate() {
                if (tree.up.is_some(), tree.down.is_some()) != (up, down) {
                    return refuse(at, format!("tree {number} has the wrong direction"));
                }
                let both = || tree.up.iter().chain(&tree.down);
                if let Some(rank) = both().find_map(|tree| tree.astray(ranks)) {
                    let problem = format!("tree {number} does not join rank {rank} to its root");
                    return refuse(at, problem);
                }
                let root = match collective {
                    Collective::AllGather | Collective::ReduceScatter => number as u32,
                    _ => tree.root(),
                };
                if both().any(|tree| tree.root() != root) {
                    return refuse(at, format!("tree {number}: expected the root {root}"));
                }
            }
        }
        Ok(Self {
            collective,
            ranks,
            channels,
        })
    }

    /// The collective.
    pub const fn collective(&self) -> Collective {
        self.collective
    }

    /// Ranks of the communicator.
    pub const fn ranks(&self) -> u32 {
        self.ranks
    }

    /// The channels.
    pub fn channels(&self) -> &[ForestChannel] {
        &self.channels
    }
}

/// Whether data goes up the trees, and whether it goes down; `None` without trees.
pub(crate) const fn directions(collective: Collective) -> Option<(bool, bool)> {
    match collective {
        Collective::AllGather | Collective::Broadcast => Some((false, true)),
        Collective::ReduceScatter | Collective::Reduce => Some((true, false)),
        Collective::AllReduce => Some((true, true)),
        Collective::AllToAll | Collective::Gather | Collective::Scatter | Collective::SendRecv => {
            None
        }
    }
}
