//! Forests: for each rank's block, or each piece, trees with a share of it.
//!
//! Every lane visits its trees in the same order on all ranks, so that no rank waits in a circle:
//! a step waits only for earlier trees, for ranks below it on the way up, and for ranks above it on
//! the way down.

use super::place::{ChannelLanes, ChannelMember};
use super::placed_forest::PlacedTree;
use super::tree::{TreeSteps, down, up};
use crate::{BufferKind, Collective, ConnectionEnd, Operand, Pieces, Step};

/// Ports of one slot: up, down, and down from the root, which sends from the lane that goes up.
const PORTS: usize = 3;

pub(super) fn forest(place: &ChannelMember<'_>) -> ChannelLanes {
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
            // At most three times the slots, which are at most the most lanes.
            port: (PORTS * self.slot + port) as u32,
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
