//! Forests: for each rank's block, or each piece, trees with a share of it.
//!
//! Every lane visits its trees in the same order on all ranks, so that no rank waits in a circle:
//! a step waits only for earlier trees, for ranks below it on the way up, and for ranks above it on
//! the way down.

use super::place::{ChannelLanes, ChannelMember};
use super::request::ProgramRequest;
use super::tree::{TreeSteps, down, up};
use super::trees::RootedTree;
use crate::forest::{Forest, ForestTree};
use crate::{
    BufferKind, ChannelsError, Collective, ConnectionEnd, Operand, Pieces, Schedule, Step,
};

/// Most lanes of a rank that are made so that trees work at the same time: as many as the blocks
/// with which NCCL's kernels run.
const MOST_LANES: usize = 32;

/// Ports of one slot: up, down, and down from the root, which sends from the lane that goes up.
const PORTS: usize = 3;

/// The trees of a request with the children of each rank.
#[derive(Default)]
pub struct PlacedForest {
    /// The share of each channel; empty if all are equal.
    pub shares: Vec<u32>,
    channels: Vec<Vec<PlacedTree>>,
    /// Lanes of a channel in each direction.
    slots: usize,
}

struct PlacedTree {
    root: u32,
    up: Option<RootedTree>,
    down: Option<RootedTree>,
}

impl PlacedForest {
    /// The trees of a request; without channels if its algorithm is no forest.
    pub fn of(request: &ProgramRequest<'_>) -> Result<Self, ChannelsError> {
        if request.schedule != Schedule::Forest {
            return Ok(Self::default());
        }
        let derived;
        let (forest, lanes) = match request.channels.forest(request.collective) {
            Some(forest) => (forest, MOST_LANES),
            None => {
                derived = Forest::derived(request.channels, request.collective)?;
                (&derived, 0)
            }
        };
        let place = |tree: &ForestTree| {
            let turned = |tree: &crate::Tree| match request.collective.has_root() {
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
    pub fn channel_count(&self) -> Option<u16> {
        // At most `Forest::MOST_CHANNELS`.
        (!self.channels.is_empty()).then_some(self.channels.len() as u16)
    }
}

pub fn forest(place: &ChannelMember<'_>) -> ChannelLanes {
    let forest = place.forest;
    let trees = &forest.channels[usize::from(place.channel)];
    let mut ups = vec![Vec::new(); forest.slots];
    let mut downs = vec![Vec::new(); forest.slots];
    for (number, tree) in trees.iter().enumerate() {
        let slot = number % forest.slots;
        let member = TreeMember {
            place,
            tree,
            slot,
            number: number as u32,
        };
        ups[slot].extend(member.going_up());
        downs[slot].extend(member.going_down());
    }
    let is_scratch = |operand: &Operand| {
        let buffer = BufferKind::Scratch;
        matches!(operand, Operand::Local { buffer: own, .. } if *own == buffer)
    };
    let mut steps = ups.iter().flatten();
    let scratch = steps.any(|step: &Step| step.operands().any(is_scratch));
    let lanes = ups.into_iter().chain(downs);
    let lanes = lanes.map(|steps| place.lane(steps)).collect();
    let pieces = match place.request.collective {
        Collective::AllReduce => trees.len() as u32,
        _ => 1,
    };
    ChannelLanes::with_scratch(pieces, if scratch { forest.slots as u32 } else { 0 }, lanes)
}

/// One rank in one tree.
struct TreeMember<'a> {
    place: &'a ChannelMember<'a>,
    tree: &'a PlacedTree,
    slot: usize,
    number: u32,
}

impl TreeMember<'_> {
    fn is_root(&self) -> bool {
        self.place.rank == self.tree.root
    }

    fn fifo(&self, peer: u32, port: usize) -> Operand {
        Operand::Fifo(ConnectionEnd {
            peer,
            channel: self.place.channel,
            // At most three times the slots, which are at most `MOST_LANES`.
            port: (PORTS * self.slot + port) as u8,
        })
    }

    fn fifos(&self, peers: &[u32], port: usize) -> Vec<Operand> {
        peers.iter().map(|peer| self.fifo(*peer, port)).collect()
    }

    /// The pieces that the tree moves, and the blocks of the input and of the output.
    fn data(&self) -> (Pieces, Operand, Operand) {
        let whole = Pieces::one(0);
        match self.place.request.collective {
            Collective::AllGather => (whole, Operand::input(0), Operand::output(self.number)),
            Collective::ReduceScatter => (whole, Operand::input(self.number), Operand::output(0)),
            Collective::AllReduce => {
                let piece = Pieces::one(u16::try_from(self.number).unwrap_or(u16::MAX));
                (piece, Operand::input(0), Operand::output(0))
            }
            _ => (whole, Operand::input(0), Operand::output(0)),
        }
    }

    /// Reduces what the ranks below send. At the root of an all-reduce the result goes down at
    /// once.
    fn going_up(&self) -> Vec<Step> {
        let Some(tree) = &self.tree.up else {
            return Vec::new();
        };
        let rank = self.place.rank as usize;
        let (pieces, input, output) = self.data();
        let has_output = self.is_root() || self.place.request.collective == Collective::AllReduce;
        let mut destinations = vec![match tree.parents[rank] {
            Some(parent) => self.fifo(parent, 0),
            None => output,
        }];
        if let Some(down) = self.tree.down.as_ref().filter(|_| self.is_root()) {
            destinations.extend(self.fifos(&down.children[rank], 2));
        }
        let steps = TreeSteps {
            pieces,
            input,
            output: match has_output {
                true => output,
                false => Operand::scratch(self.slot as u32),
            },
        };
        let children = self.fifos(&tree.children[rank], 0);
        up(&steps, &children, &destinations, self.is_root())
    }

    /// Stores what the rank above sends, and sends it to those below.
    fn going_down(&self) -> Vec<Step> {
        let Some(tree) = &self.tree.down else {
            return Vec::new();
        };
        let rank = self.place.rank as usize;
        let (pieces, input, output) = self.data();
        let steps = TreeSteps {
            pieces,
            input,
            output,
        };
        let reduces = self.tree.up.is_some();
        if self.is_root() && reduces {
            return Vec::new();
        }
        let from_root = |parent: u32| reduces && parent == self.tree.root;
        let parent = tree.parents[rank].map(|parent| match from_root(parent) {
            true => self.fifo(parent, 2),
            false => self.fifo(parent, 1),
        });
        let children = self.fifos(&tree.children[rank], 1);
        down(&steps, self.place.in_place(), parent, &children)
    }
}
