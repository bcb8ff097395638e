//! Gather and scatter over a tree: ranks between forward blocks from FIFO to FIFO.

use super::place::{ChannelLanes, ChannelMember};
use super::trees::RootedTree;
use super::write::copy;
use crate::{Operand, Pieces};

pub(super) fn gather(place: &ChannelMember<'_>, tree: &RootedTree) -> ChannelLanes {
    let whole = Pieces::one(0);
    let parent = tree.parents[place.rank as usize].map(|parent| place.fifo(parent));
    let mut steps = Vec::new();
    match parent {
        Some(parent) => steps.push(copy(whole, Operand::input(0), [parent])),
        None => steps.extend(place.own_copy()),
    }
    for child in &tree.children[place.rank as usize] {
        for rank in tree.below(*child) {
            let to = parent.unwrap_or(Operand::output(rank));
            steps.push(copy(whole, place.fifo(*child), [to]));
        }
    }
    ChannelLanes::new(1, vec![place.lane(steps)])
}

pub(super) fn scatter(place: &ChannelMember<'_>, tree: &RootedTree) -> ChannelLanes {
    let whole = Pieces::one(0);
    let parent = tree.parents[place.rank as usize].map(|parent| place.fifo(parent));
    let mut steps = Vec::new();
    match parent {
        Some(parent) => steps.push(copy(whole, parent, [Operand::output(0)])),
        None => steps.extend(place.own_copy()),
    }
    for child in &tree.children[place.rank as usize] {
        for rank in tree.below(*child) {
            let from = parent.unwrap_or(Operand::input(rank));
            steps.push(copy(whole, from, [place.fifo(*child)]));
        }
    }
    ChannelLanes::new(1, vec![place.lane(steps)])
}
