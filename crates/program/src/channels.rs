//! The rings and trees over which programs are written.

use std::collections::BTreeMap;

use crate::collective::Collective;
use crate::forest::Forest;
use crate::tree::{ChannelsError, MOST_CHANNELS, MOST_RANKS, Tree};

/// The channels of a communicator: one ring order and one tree each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channels {
    ranks: u32,
    rings: Vec<Vec<u32>>,
    trees: Vec<Tree>,
    /// By rank: the number of its host. Hosts are numbered in the order of their first ranks.
    hosts: Vec<u32>,
    forests: BTreeMap<Collective, Forest>,
}

impl Channels {
    /// Most ranks: pieces of a window are numbered with 16 bits.
    pub const MOST_RANKS: u32 = MOST_RANKS;

    /// Most channels.
    pub const MOST_CHANNELS: usize = MOST_CHANNELS;

    /// Checks and keeps the ring order and the tree of each channel.
    ///
    /// # Errors
    /// A ring or a tree does not join all ranks, or there are none, or too many.
    pub fn new(ranks: u32, rings: Vec<Vec<u32>>, trees: Vec<Tree>) -> Result<Self, ChannelsError> {
        if ranks == 0 || ranks > Self::MOST_RANKS {
            return Err(ChannelsError::Ranks { ranks });
        }
        if rings.is_empty() || rings.len() > Self::MOST_CHANNELS || rings.len() != trees.len() {
            let (rings, trees) = (rings.len(), trees.len());
            return Err(ChannelsError::Count { rings, trees });
        }
        for (channel, ring) in rings.iter().enumerate() {
            let mut sorted = ring.clone();
            sorted.sort_unstable();
            if !sorted.into_iter().eq(0..ranks) {
                return Err(ChannelsError::Ring { channel, ranks });
            }
        }
        for (channel, tree) in trees.iter().enumerate() {
            if let Some(rank) = tree.astray(ranks) {
                return Err(ChannelsError::Tree {
                    channel,
                    ranks,
                    rank,
                });
            }
        }
        Ok(Self {
            ranks,
            rings,
            trees,
            hosts: vec![0; ranks as usize],
            forests: BTreeMap::new(),
        })
    }

    /// The same channels on several hosts; `hosts` has any number for each rank, equal for ranks of
    /// one host. Without it, all ranks are on one host.
    ///
    /// # Errors
    /// There is not one number for each rank.
    pub fn on_hosts(self, hosts: &[u32]) -> Result<Self, ChannelsError> {
        let (ranks, found) = (self.ranks, hosts.len());
        if found != ranks as usize {
            return Err(ChannelsError::Hosts { ranks, found });
        }
        let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
        let mut next = 0;
        let number = |host: &u32| {
            *numbers.entry(*host).or_insert_with(|| {
                next += 1;
                next - 1
            })
        };
        let hosts = hosts.iter().map(number).collect();
        Ok(Self { hosts, ..self })
    }

    /// Channels without a plan: rings in rank order, and alternating trees of a double binary tree.
    ///
    /// # Errors
    /// No ranks or no channels, or too many.
    pub fn plain(ranks: u32, channels: usize) -> Result<Self, ChannelsError> {
        if ranks == 0 || ranks > Self::MOST_RANKS {
            return Err(ChannelsError::Ranks { ranks });
        }
        let trees: Vec<Tree> = (0..channels.min(Self::MOST_CHANNELS + 1))
            .map(|channel| Tree::binary(ranks, channel % 2 == 1))
            .collect();
        let rings = vec![(0..ranks).collect(); trees.len()];
        Self::new(ranks, rings, trees)
    }

    /// The same channels with trees for a collective, which [`Schedule::Forest`] uses instead of
    /// the channels' trees.
    ///
    /// [`Schedule::Forest`]: crate::Schedule::Forest
    ///
    /// # Errors
    /// The trees are of another number of ranks.
    pub fn with_forest(mut self, forest: Forest) -> Result<Self, ChannelsError> {
        if forest.ranks() != self.ranks {
            return Err(ChannelsError::Forest {
                collective: forest.collective(),
                channel: 0,
                problem: format!("it has {} ranks; expected {}", forest.ranks(), self.ranks),
            });
        }
        self.forests.insert(forest.collective(), forest);
        Ok(self)
    }

    /// The trees of a collective, if it has its own.
    pub fn forest(&self, collective: Collective) -> Option<&Forest> {
        self.forests.get(&collective)
    }

    /// The first `channels` of them, or all if there are fewer. Forests stay.
    pub fn take(&self, channels: usize) -> Self {
        let channels = channels.clamp(1, self.rings.len());
        Self {
            ranks: self.ranks,
            rings: self.rings[..channels].to_vec(),
            trees: self.trees[..channels].to_vec(),
            hosts: self.hosts.clone(),
            forests: self.forests.clone(),
        }
    }

    /// The same rings and trees with hosts in place of ranks. A ring visits the hosts in the order
    /// in which it first enters them. The links of a tree that join hosts are kept if they are a
    /// tree; otherwise a binary tree joins the hosts.
    pub(crate) fn between_hosts(&self) -> Self {
        let hosts = self.host_count();
        let rings = self.rings.iter().map(|ring| {
            let mut visited = vec![false; hosts as usize];
            let first = |host: &u32| !std::mem::replace(&mut visited[*host as usize], true);
            let order = ring.iter().map(|rank| self.hosts[*rank as usize]);
            order.filter(first).collect()
        });
        let trees = self.trees.iter().enumerate().map(|(channel, tree)| {
            let between = tree.between_hosts(&self.hosts, hosts);
            between.unwrap_or_else(|| Tree::binary(hosts, channel % 2 == 1))
        });
        Self {
            ranks: hosts,
            rings: rings.collect(),
            trees: trees.collect(),
            hosts: vec![0; hosts as usize],
            forests: BTreeMap::new(),
        }
    }

    /// Ranks of the communicator.
    pub const fn ranks(&self) -> u32 {
        self.ranks
    }

    /// How many channels.
    pub fn count(&self) -> u16 {
        // At most `MOST_CHANNELS`.
        u16::try_from(self.rings.len()).unwrap_or(u16::MAX)
    }

    /// The ring order of each channel.
    pub fn rings(&self) -> &[Vec<u32>] {
        &self.rings
    }

    /// By rank: the number of its host, from 0 in the order of their first ranks.
    pub fn hosts(&self) -> &[u32] {
        &self.hosts
    }

    /// By channel and rank: the position of the rank in the channel's ring.
    pub fn positions(&self) -> Vec<Vec<u32>> {
        let positions = |ring: &Vec<u32>| {
            let mut positions = vec![0; ring.len()];
            for (rank, position) in ring.iter().zip(0..) {
                positions[*rank as usize] = position;
            }
            positions
        };
        self.rings.iter().map(positions).collect()
    }

    /// How many hosts.
    pub fn host_count(&self) -> u32 {
        self.hosts.iter().max().map_or(1, |last| last + 1)
    }

    /// The fewest and the most ranks of a host.
    pub fn ranks_per_host(&self) -> (u32, u32) {
        let mut counts = vec![0; self.host_count() as usize];
        for host in &self.hosts {
            counts[*host as usize] += 1;
        }
        let fewest = counts.iter().min().copied().unwrap_or(0);
        (fewest, counts.into_iter().max().unwrap_or(0))
    }

    /// The tree of each channel.
    pub fn trees(&self) -> &[Tree] {
        &self.trees
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parents(tree: &Tree) -> Vec<i64> {
        let number = |parent: &Option<u32>| parent.map_or(-1, i64::from);
        tree.parents.iter().map(number).collect()
    }

    #[test]
    fn double_binary_trees() {
        // Two, four and five ranks, by hand from the rule.
        assert_eq!(parents(&Tree::binary(2, false)), [-1, 0]);
        assert_eq!(parents(&Tree::binary(2, true)), [1, -1]);
        assert_eq!(parents(&Tree::binary(4, false)), [-1, 2, 0, 2]);
        assert_eq!(parents(&Tree::binary(4, true)), [1, 3, 1, -1]);
        assert_eq!(parents(&Tree::binary(5, false)), [-1, 2, 4, 2, 0]);
        assert_eq!(parents(&Tree::binary(5, true)), [1, -1, 3, 0, 3]);
    }

    #[test]
    fn a_new_root_keeps_the_links() {
        let tree = Tree::binary(9, false);
        for root in 0..9 {
            let rooted = tree.rooted(root);
            assert_eq!(rooted.root(), root);
            assert_eq!(rooted.astray(9), None);
        }
        assert_eq!(tree.rooted(7).rooted(0), tree);
    }

    #[test]
    fn what_is_no_channel() {
        let plain = Channels::plain(4, 2).expect("four ranks");
        let with = |rings: Vec<Vec<u32>>, trees: Vec<Vec<Option<u32>>>| {
            let trees = trees.into_iter().map(|parents| Tree { parents }).collect();
            Channels::new(4, rings, trees)
        };
        let (rings, tree) = (plain.rings().to_vec(), plain.trees()[0].parents.clone());
        assert!(with(rings[..1].to_vec(), vec![tree.clone()]).is_ok());
        assert!(with(rings.clone(), vec![tree.clone()]).is_err());
        assert!(with(vec![vec![0, 1, 2, 2]], vec![tree]).is_err());
        for parents in [
            vec![None, Some(0), Some(0)],
            vec![None, Some(0), None, Some(0)],
            vec![None, Some(2), Some(3), Some(1)],
            vec![None, Some(0), Some(9), Some(0)],
        ] {
            assert!(
                with(rings[..1].to_vec(), vec![parents.clone()]).is_err(),
                "{parents:?}"
            );
        }
        assert!(Channels::plain(0, 1).is_err());
        assert!(Channels::plain(2, 0).is_err());
        assert!(Channels::plain(65_536, 1).is_err());
    }
}
