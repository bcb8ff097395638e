//! Recursive halving and recursive doubling: exchanges with partners whose rank differs in one bit.
//!
//! They need a power of two. Of other numbers of ranks, the largest power of two forms the core;
//! each rank beyond it has a partner in the core that does its work too.

use std::iter;

use super::place::{ChannelLanes, ChannelMember};
use super::write::{copy, last_step, step};
use crate::{Collective, Operand, Pieces, Step};

/// The ranks below the largest power of two.
#[derive(Debug, Clone, Copy)]
pub(super) struct Core {
    all: u32,
    /// Ranks of the core; at least 2 if there are 2 ranks.
    pub ranks: u32,
}

impl Core {
    pub(super) const fn new(ranks: u32) -> Self {
        Self {
            all: ranks,
            ranks: 1 << ranks.ilog2(),
        }
    }

    /// The partner of a rank beyond the core.
    pub(super) fn partner_of_extra(self, rank: u32) -> Option<u32> {
        rank.checked_sub(self.ranks)
    }

    /// The rank beyond the core whose partner this is.
    pub(super) fn extra_of(self, rank: u32) -> Option<u32> {
        Some(rank + self.ranks).filter(|extra| *extra < self.all)
    }

    /// 1, 2, 4 … up to half of the core.
    pub(super) fn distances(self) -> impl DoubleEndedIterator<Item = u32> {
        (0..self.ranks.ilog2()).map(|bit| 1 << bit)
    }

    /// Blocks of a range of core ranks, and of the ranks beyond the core that they work for.
    fn blocks(self, first: u32, count: u32) -> impl Iterator<Item = u32> {
        let extras = (first..first + count).filter_map(move |rank| self.extra_of(rank));
        (first..first + count).chain(extras)
    }

    /// The blocks that a rank sends, and those that it keeps, in the exchange at a distance.
    fn shares(self, rank: u32, distance: u32) -> (Vec<u32>, Vec<u32>) {
        let mine = rank & !(distance - 1);
        let blocks = |first| self.blocks(first, distance).collect();
        (blocks(mine ^ distance), blocks(mine))
    }
}

/// Alternates between two lists, then the rest of the longer one.
fn alternate<T>(first: Vec<T>, second: Vec<T>) -> impl Iterator<Item = T> {
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    iter::from_fn(move || {
        let pair = (first.next(), second.next());
        (pair.0.is_some() || pair.1.is_some()).then_some(pair)
    })
    .flat_map(|(first, second)| first.into_iter().chain(second))
}

/// The action of an exchange on a block.
enum Exchange {
    Give(u32),
    Take(u32),
}

impl Exchange {
    /// Alternates sends and receives, so that one slot per FIFO is enough.
    fn order(give: Vec<u32>, take: Vec<u32>) -> impl Iterator<Item = Self> {
        let give = give.into_iter().map(Exchange::Give).collect();
        alternate(give, take.into_iter().map(Exchange::Take).collect())
    }

    const fn block(&self) -> u32 {
        match self {
            Self::Give(block) | Self::Take(block) => *block,
        }
    }
}

/// Reduce-scatter by recursive halving, with partial sums in scratch memory.
pub(super) fn reduce_scatter(place: &ChannelMember<'_>) -> ChannelLanes {
    let core = Core::new(place.ranks());
    let (whole, rank) = (Pieces::one(0), place.rank);
    let farthest = core.ranks / 2;
    if let Some(partner) = core.partner_of_extra(rank) {
        // In the order in which the partner needs them.
        let (give, keep) = core.shares(partner, farthest);
        let partner = place.fifo(partner);
        let blocks = Exchange::order(give, keep).map(|turn| turn.block());
        let mut body: Vec<Step> = blocks
            .map(|block| copy(whole, Operand::input(block), [partner]))
            .collect();
        body.push(copy(whole, partner, [Operand::output(0)]));
        return ChannelLanes::new(1, vec![place.lane(body)]);
    }
    let extra = core.extra_of(rank).map(|extra| place.fifo(extra));
    let (_, kept) = core.shares(rank, farthest);
    let scratch = |block: u32| {
        let at = kept.iter().zip(0..).find(|(kept, _)| **kept == block);
        Operand::scratch(at.map_or(0, |(_, at)| at))
    };
    let mut body = Vec::new();
    for distance in core.distances().rev() {
        let partner = place.fifo(rank ^ distance);
        let (give, keep) = core.shares(rank, distance);
        // The sources of a block: a partial sum after the first exchange; before it, the inputs of
        // this rank and of the rank that it works for.
        let known = |block| {
            let from_extra = extra.filter(|_| distance == farthest);
            let own = if distance == farthest {
                Operand::input(block)
            } else {
                scratch(block)
            };
            from_extra.into_iter().chain([own])
        };
        for turn in Exchange::order(give, keep) {
            body.push(match turn {
                Exchange::Give(block) => step(whole, known(block), [partner]),
                Exchange::Take(block) => {
                    let sources = [partner].into_iter().chain(known(block));
                    match extra {
                        _ if distance > 1 => step(whole, sources, [scratch(block)]),
                        Some(extra) if block != rank => last_step(whole, sources, [extra]),
                        _ => last_step(whole, sources, [Operand::output(0)]),
                    }
                }
            });
        }
    }
    let blocks = if farthest > 1 { kept.len() } else { 0 };
    let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
    ChannelLanes::with_scratch(1, blocks, vec![place.lane(body)])
}

/// All-gather or all-reduce by recursive doubling.
pub(super) fn doubling(place: &ChannelMember<'_>) -> ChannelLanes {
    match place.request.collective {
        Collective::AllReduce => all_reduce(place),
        _ => all_gather(place),
    }
}

/// In each round partners exchange what they have reduced. Both reduce in the same order, so that
/// all ranks round alike.
fn all_reduce(place: &ChannelMember<'_>) -> ChannelLanes {
    let core = Core::new(place.ranks());
    let (whole, rank, output) = (Pieces::one(0), place.rank, Operand::output(0));
    if let Some(partner) = core.partner_of_extra(rank) {
        let partner = place.fifo(partner);
        let give = copy(whole, Operand::input(0), [partner]);
        let take = copy(whole, partner, [output]);
        return ChannelLanes::new(1, vec![place.lane(vec![give, take])]);
    }
    let extra = core.extra_of(rank).map(|extra| place.fifo(extra));
    let mut own = Operand::input(0);
    let mut body: Vec<Step> = Vec::new();
    if let Some(extra) = extra {
        body.push(step(whole, [own, extra], [output]));
        own = output;
    }
    for distance in core.distances() {
        let partner = place.fifo(rank ^ distance);
        let both = match rank & distance {
            0 => [own, partner],
            _ => [partner, own],
        };
        body.push(copy(whole, own, [partner]));
        body.push(match 2 * distance == core.ranks {
            false => step(whole, both, [output]),
            true => last_step(whole, both, [output].into_iter().chain(extra)),
        });
        own = output;
    }
    ChannelLanes::new(1, vec![place.lane(body)])
}

fn all_gather(place: &ChannelMember<'_>) -> ChannelLanes {
    let core = Core::new(place.ranks());
    let (whole, rank, output) = (Pieces::one(0), place.rank, Operand::output);
    let own = (!place.in_place()).then_some(output(rank));
    let mut body: Vec<Step> = Vec::new();
    if let Some(partner) = core.partner_of_extra(rank) {
        let partner = place.fifo(partner);
        body.push(copy(
            whole,
            Operand::input(0),
            own.into_iter().chain([partner]),
        ));
        let others = (0..place.ranks()).filter(|block| *block != rank);
        body.extend(others.map(|block| copy(whole, partner, [output(block)])));
        return ChannelLanes::new(1, vec![place.lane(body)]);
    }
    let extra = core.extra_of(rank);
    for distance in core.distances() {
        let partner = place.fifo(rank ^ distance);
        // Unlike in halving, a rank sends its own side.
        let (theirs, mine) = core.shares(rank, distance);
        for turn in Exchange::order(mine, theirs) {
            body.push(match turn {
                Exchange::Take(block) => copy(whole, partner, [output(block)]),
                Exchange::Give(block) if distance > 1 => copy(whole, output(block), [partner]),
                // Blocks that are not in the output yet are stored there too.
                Exchange::Give(block) if block == rank => {
                    copy(whole, Operand::input(0), own.into_iter().chain([partner]))
                }
                Exchange::Give(block) => copy(whole, place.fifo(block), [output(block), partner]),
            });
        }
    }
    if let Some(extra) = extra {
        let others = (0..place.ranks()).filter(|block| *block != extra);
        body.extend(others.map(|block| copy(whole, output(block), [place.fifo(extra)])));
    }
    ChannelLanes::new(1, vec![place.lane(body)])
}
