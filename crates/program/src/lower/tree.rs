//! The plan's trees, hung up at the root where there is one.

use super::Request;
use super::gather_scatter;
use super::place::{Part, Place};
use super::write::{Fold, copy, spread};
use crate::Collective;
use crate::{Operand, Pieces, Schedule, Step};

/// The trees of all channels, as the collective needs them.
pub struct Trees {
    channels: Vec<Hung>,
}

/// One tree.
pub struct Hung {
    pub parents: Vec<Option<u32>>,
    pub children: Vec<Vec<u32>>,
}

impl Trees {
    /// None where the algorithm uses no trees.
    pub fn of(request: &Request<'_>) -> Self {
        if request.schedule != Schedule::Tree {
            return Self {
                channels: Vec::new(),
            };
        }
        let rooted = |tree: &crate::Tree| {
            if request.collective.has_root() {
                tree.rooted(request.root)
            } else {
                tree.clone()
            }
        };
        let hung = request.channels.trees().iter().map(|tree| {
            let tree = rooted(tree);
            Hung {
                children: tree.children(),
                parents: tree.parents,
            }
        });
        Self {
            channels: hung.collect(),
        }
    }

    pub fn of_channel(&self, channel: u16) -> &Hung {
        &self.channels[channel as usize]
    }
}

pub fn tree(place: &Place<'_>) -> Part {
    let tree = place.trees.of_channel(place.channel);
    let parent = tree.parents[place.rank as usize].map(|parent| place.fifo(parent));
    let children: Vec<Operand> = tree.children[place.rank as usize]
        .iter()
        .map(|child| place.fifo(*child))
        .collect();
    match place.request.collective {
        Collective::AllReduce => all_reduce(place, parent, &children),
        Collective::Broadcast => Part::new(1, vec![place.lane(down(place, parent, &children))]),
        Collective::Reduce => {
            // Only the root has an output in which results could wait that are not whole yet.
            let waits = place.rank != place.root() && children.len() >= Step::MOST_OPERANDS;
            let accumulator = if place.is_root() {
                Operand::output(0)
            } else {
                Operand::scratch(0)
            };
            let to = parent.unwrap_or(Operand::output(0));
            let steps = up(&children, accumulator, &[to], parent.is_none());
            Part::with_scratch(1, u32::from(waits), vec![place.lane(steps)])
        }
        Collective::Gather => gather_scatter::gather(place, tree),
        _ => gather_scatter::scatter(place, tree),
    }
}

/// Up in one lane and down in another, so that one window goes down while the next goes up. At the root the two are one.
fn all_reduce(place: &Place<'_>, parent: Option<Operand>, children: &[Operand]) -> Part {
    let output = Operand::output(0);
    let Some(parent) = parent else {
        let everyone: Vec<Operand> = [output]
            .into_iter()
            .chain(children.iter().copied())
            .collect();
        let steps = up(children, output, &everyone, true);
        return Part::new(1, vec![place.lane(steps)]);
    };
    let up = up(children, output, &[parent], false);
    let down = down(place, Some(parent), children);
    Part::new(1, vec![place.lane(up), place.lane(down)])
}

/// The own input with what comes from below.
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

/// What comes from above, or the own input at the root, into the output and to all below.
fn down(place: &Place<'_>, parent: Option<Operand>, children: &[Operand]) -> Vec<Step> {
    let whole = Pieces::one(0);
    let output = Operand::output(0);
    let Some(parent) = parent else {
        let own = (!place.in_place()).then_some(output);
        let everyone: Vec<Operand> = own.into_iter().chain(children.iter().copied()).collect();
        return spread(whole, Operand::input(0), &everyone);
    };
    let (now, later) = children.split_at(children.len().min(Step::MOST_FIFOS));
    let first = [output].into_iter().chain(now.iter().copied());
    let mut steps = vec![copy(whole, parent, first)];
    steps.extend(spread(whole, output, later));
    steps
}
