//! Trees, with the root of the collective at the top.

use super::gather_scatter;
use super::place::{ChannelLanes, ChannelMember};
use super::write::{Fold, copy, spread};
use crate::{Collective, Operand, Pieces, Step};

pub(super) fn tree(place: &ChannelMember<'_>) -> ChannelLanes {
    let tree = place.trees.of_channel(place.channel);
    let parent = tree.parents[place.rank as usize].map(|parent| place.fifo(parent));
    let children: Vec<Operand> = tree.children[place.rank as usize]
        .iter()
        .map(|child| place.fifo(*child))
        .collect();
    match place.request.collective {
        Collective::AllReduce => all_reduce(place, parent, &children),
        Collective::Broadcast => {
            let steps = down(&WHOLE, place.in_place(), parent, &children);
            ChannelLanes::new(1, vec![place.lane(steps)])
        }
        Collective::Reduce => {
            // Only the root has an output that can hold partial sums.
            let waits = place.rank != place.root() && children.len() >= Step::MOST_OPERANDS;
            let steps = TreeSteps {
                output: match place.is_root() {
                    true => Operand::output(0),
                    false => Operand::scratch(0),
                },
                ..WHOLE
            };
            let to = parent.unwrap_or(Operand::output(0));
            let steps = up(&steps, &children, &[to], parent.is_none());
            ChannelLanes::with_scratch(1, u32::from(waits), vec![place.lane(steps)])
        }
        Collective::Gather => gather_scatter::gather(place, tree),
        _ => gather_scatter::scatter(place, tree),
    }
}

/// Up in one lane and down in another, so that one window goes down while the next goes up. The
/// root has a single lane.
fn all_reduce(
    place: &ChannelMember<'_>,
    parent: Option<Operand>,
    children: &[Operand],
) -> ChannelLanes {
    let output = Operand::output(0);
    let Some(parent) = parent else {
        let all: Vec<Operand> = [output]
            .into_iter()
            .chain(children.iter().copied())
            .collect();
        let steps = up(&WHOLE, children, &all, true);
        return ChannelLanes::new(1, vec![place.lane(steps)]);
    };
    let up = up(&WHOLE, children, &[parent], false);
    let down = down(&WHOLE, place.in_place(), Some(parent), children);
    ChannelLanes::new(1, vec![place.lane(up), place.lane(down)])
}

/// The steps of a tree.
pub(super) struct TreeSteps {
    /// The pieces of the blocks.
    pub pieces: Pieces,
    /// The rank's own data.
    pub input: Operand,
    /// Where the result goes; on the way up, where partial sums are kept if one step does not
    /// suffice.
    pub output: Operand,
}

const WHOLE: TreeSteps = TreeSteps {
    pieces: Pieces::one(0),
    input: Operand::input(0),
    output: Operand::output(0),
};

/// Reduces the own input with the children's data.
pub(super) fn up(
    tree: &TreeSteps,
    children: &[Operand],
    destinations: &[Operand],
    finish: bool,
) -> Vec<Step> {
    let own = [tree.input].into_iter();
    Fold {
        pieces: tree.pieces,
        operands: &own.chain(children.iter().copied()).collect::<Vec<_>>(),
        accumulator: tree.output,
        destinations,
        finish,
        alike: false,
    }
    .steps()
}

/// Stores the parent's data, or at the root its input, and sends it to the children.
pub(super) fn down(
    tree: &TreeSteps,
    in_place: bool,
    parent: Option<Operand>,
    children: &[Operand],
) -> Vec<Step> {
    let Some(parent) = parent else {
        let own = (!in_place).then_some(tree.output);
        let all: Vec<Operand> = own.into_iter().chain(children.iter().copied()).collect();
        return spread(tree.pieces, tree.input, &all);
    };
    let (now, later) = children.split_at(children.len().min(Step::MOST_FIFOS));
    let first = [tree.output].into_iter().chain(now.iter().copied());
    let mut steps = vec![copy(tree.pieces, parent, first)];
    steps.extend(spread(tree.pieces, tree.output, later));
    steps
}
