//! Trees, with the root of the collective at the top.

use super::gather_scatter;
use super::place::{ChannelLanes, ChannelMember};
use super::write::{Fold, copy, spread};
use crate::{Collective, Operand, Pieces, Step};

pub fn tree(place: &ChannelMember<'_>) -> ChannelLanes {
    let tree = place.trees.of_channel(place.channel);
    let parent = tree.parents[place.rank as usize].map(|parent| place.fifo(parent));
    let children: Vec<Operand> = tree.children[place.rank as usize]
        .iter()
        .map(|child| place.fifo(*child))
        .collect();
    match place.request.collective {
        Collective::AllReduce => all_reduce(place, parent, &children),
        Collective::Broadcast => {
            ChannelLanes::new(1, vec![place.lane(down(place, parent, &children))])
        }
        Collective::Reduce => {
            // Only the root has an output that can hold partial sums.
            let waits = place.rank != place.root() && children.len() >= Step::MOST_OPERANDS;
            let accumulator = if place.is_root() {
                Operand::output(0)
            } else {
                Operand::scratch(0)
            };
            let to = parent.unwrap_or(Operand::output(0));
            let steps = up(&children, accumulator, &[to], parent.is_none());
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
        let steps = up(children, output, &all, true);
        return ChannelLanes::new(1, vec![place.lane(steps)]);
    };
    let up = up(children, output, &[parent], false);
    let down = down(place, Some(parent), children);
    ChannelLanes::new(1, vec![place.lane(up), place.lane(down)])
}

/// Reduces the own input with the children's data.
fn up(
    children: &[Operand],
    accumulator: Operand,
    destinations: &[Operand],
    finish: bool,
) -> Vec<Step> {
    let own = [Operand::input(0)].into_iter();
    Fold {
        pieces: Pieces::one(0),
        operands: &own.chain(children.iter().copied()).collect::<Vec<_>>(),
        accumulator,
        destinations,
        finish,
        alike: false,
    }
    .steps()
}

/// Stores the parent's data, or at the root its input, and sends it to the children.
fn down(place: &ChannelMember<'_>, parent: Option<Operand>, children: &[Operand]) -> Vec<Step> {
    let whole = Pieces::one(0);
    let output = Operand::output(0);
    let Some(parent) = parent else {
        let own = (!place.in_place()).then_some(output);
        let all: Vec<Operand> = own.into_iter().chain(children.iter().copied()).collect();
        return spread(whole, Operand::input(0), &all);
    };
    let (now, later) = children.split_at(children.len().min(Step::MOST_FIFOS));
    let first = [output].into_iter().chain(now.iter().copied());
    let mut steps = vec![copy(whole, parent, first)];
    steps.extend(spread(whole, output, later));
    steps
}
