//! Gather and scatter over a tree: blocks pass through the ranks between, without stopping in memory.

use super::place::{Part, Place};
use super::tree::Hung;
use super::write::copy;
use crate::{Operand, Pieces};

impl Hung {
    /// A rank and all below it: first the rank itself, then the ranks under its first child, and so on. In this order
    /// blocks travel through the link above the rank.
    fn below(&self, rank: u32) -> Vec<u32> {
        let (mut order, mut next) = (Vec::new(), vec![rank]);
        while let Some(rank) = next.pop() {
            order.push(rank);
            next.extend(self.children[rank as usize].iter().rev());
        }
        order
    }
}

pub fn gather(place: &Place<'_>, tree: &Hung) -> Part {
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
    Part::new(1, vec![place.lane(steps)])
}

pub fn scatter(place: &Place<'_>, tree: &Hung) -> Part {
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
    Part::new(1, vec![place.lane(steps)])
}
