//! The trees of a request: those of its collective if the channels have any, else the channels'
//! own.

use super::request::ProgramRequest;
use super::trees::RootedTree;
use crate::forest::{Forest, ForestChannel, ForestTree, directions};
use crate::tree::{ChannelsError, Tree};
use crate::{Channels, Collective, Schedule};

/// Most lanes of a rank that are made so that trees work at the same time: as many as the blocks
/// with which NCCL's kernels run.
const MOST_LANES: usize = 32;

/// The trees of a request with the children of each rank.
#[derive(Default)]
pub(super) struct PlacedForest {
    /// The share of each channel; empty if all are equal.
    pub shares: Vec<u32>,
    pub channels: Vec<Vec<PlacedTree>>,
    /// Lanes of a channel in each direction.
    pub slots: usize,
}

/// A tree with the children of each rank.
pub(super) struct PlacedTree {
    pub root: u32,
    pub up: Option<RootedTree>,
    pub down: Option<RootedTree>,
}

impl PlacedForest {
    /// The trees of a request; without channels if its algorithm is no forest.
    pub(super) fn of(request: &ProgramRequest<'_>) -> Result<Self, ChannelsError> {
        if request.schedule != Schedule::Forest {
            return Ok(Self::default());
        }
        let turned_trees;
        let (forest, lanes) = match request.channels.forest(request.collective) {
            Some(forest) => (forest, MOST_LANES),
            None => {
                turned_trees = derived(request.channels, request.collective)?;
                (&turned_trees, 0)
            }
        };
        let place = |tree: &ForestTree| {
            let turned = |tree: &Tree| match request.collective.has_root() {
                true => RootedTree::of(tree.rooted(request.root)),
                false => RootedTree::of(tree.clone()),
            };
            PlacedTree {
                root: match request.collective.has_root() {
                    true => request.root,
                    false => tree.root(),
                },
                up: tree.up.as_ref().map(turned),
                down: tree.down.as_ref().map(turned),
            }
        };
        let channels = forest.channels();
        let shares: Vec<u32> = channels.iter().map(|channel| channel.share).collect();
        let trees = channels.first().map_or(1, |channel| channel.trees.len());
        let both = match request.collective {
            Collective::AllReduce => 2,
            _ => 1,
        };
        Ok(Self {
            shares: match shares.iter().all(|share| *share == shares[0]) {
                true => Vec::new(),
                false => shares,
            },
            slots: (lanes / (channels.len() * both)).clamp(1, trees.max(1)),
            channels: channels
                .iter()
                .map(|channel| channel.trees.iter().map(place).collect())
                .collect(),
        })
    }

    /// How many channels there are; `None` if the algorithm is no forest.
    pub(super) fn channel_count(&self) -> Option<u16> {
        // At most `Forest::MOST_CHANNELS`.
        (!self.channels.is_empty()).then_some(self.channels.len() as u16)
    }
}

/// Forests of the trees of channels, turned to the roots that the collective needs.
fn derived(channels: &Channels, collective: Collective) -> Result<Forest, ChannelsError> {
    let (up, down) = directions(collective).unwrap_or_default();
    let roots = match collective.has_root() {
        true => 1,
        false => channels.ranks(),
    };
    let links = roots as usize * channels.ranks() as usize * channels.trees().len();
    if links > Forest::MOST_LINKS {
        return Err(ChannelsError::Forest {
            collective,
            channel: 0,
            problem: format!("{roots} trees over all ranks are too many"),
        });
    }
    let trees = channels.trees().iter().take(Forest::MOST_CHANNELS);
    let channel = |tree: &Tree| ForestChannel {
        share: 1,
        trees: (0..roots)
            .map(|root| {
                let tree = tree.rooted(root);
                ForestTree {
                    up: up.then(|| tree.clone()),
                    down: down.then_some(tree),
                }
            })
            .collect(),
    };
    Forest::new(collective, channels.ranks(), trees.map(channel).collect())
}
