//! Rings. With a root, a ring is a chain that begins or ends there.

use super::place::{ChannelLanes, ChannelMember};
use super::write::{copy, last_step, step};
use crate::{Collective, Operand, Pieces, Step};

struct RingMember<'a> {
    place: &'a ChannelMember<'a>,
    position: u32,
    ring: &'a [u32],
}

pub(super) fn ring(place: &ChannelMember<'_>) -> ChannelLanes {
    let (position, ring) = place.ring();
    let ring = RingMember {
        place,
        position,
        ring,
    };
    let (pieces, body) = match place.request.collective {
        Collective::AllReduce => (place.ranks(), ring.all_reduce()),
        Collective::ReduceScatter => (1, ring.reduce_scatter()),
        Collective::AllGather => (1, ring.all_gather()),
        Collective::Broadcast => (1, ring.broadcast()),
        _ => (1, ring.reduce()),
    };
    ChannelLanes::new(pieces, vec![place.lane(body)])
}

impl RingMember<'_> {
    fn back(&self, distance: u32) -> u32 {
        self.ring[self.position_back(distance) as usize]
    }

    fn position_back(&self, distance: u32) -> u32 {
        let ranks = self.place.ranks();
        (self.position + 2 * ranks - distance) % ranks
    }

    fn next(&self) -> Operand {
        let ranks = self.place.ranks();
        self.place.fifo(self.back(ranks - 1))
    }

    fn previous(&self) -> Operand {
        self.place.fifo(self.back(1))
    }

    /// Each piece goes round the ring once to be reduced, ends at the rank with its number, and
    /// goes round again to be stored.
    fn all_reduce(&self) -> Vec<Step> {
        let ranks = self.place.ranks();
        let piece =
            |distance| Pieces::one(u16::try_from(self.position_back(distance)).unwrap_or(u16::MAX));
        let (next, previous) = (self.next(), self.previous());
        let (input, output) = (Operand::input(0), Operand::output(0));
        let mut steps = vec![copy(piece(1), input, [next])];
        steps.extend((2..ranks).map(|distance| step(piece(distance), [previous, input], [next])));
        steps.push(last_step(piece(0), [previous, input], [output, next]));
        steps
            .extend((1..ranks - 1).map(|distance| copy(piece(distance), previous, [output, next])));
        steps.push(copy(piece(ranks - 1), previous, [output]));
        steps
    }

    fn reduce_scatter(&self) -> Vec<Step> {
        let ranks = self.place.ranks();
        let whole = Pieces::one(0);
        let (next, previous) = (self.next(), self.previous());
        let block = |distance| Operand::input(self.back(distance));
        let mut steps = vec![copy(whole, block(1), [next])];
        steps.extend((2..ranks).map(|distance| step(whole, [previous, block(distance)], [next])));
        let own = [previous, block(0)];
        steps.push(last_step(whole, own, [Operand::output(0)]));
        steps
    }

    fn all_gather(&self) -> Vec<Step> {
        let ranks = self.place.ranks();
        let whole = Pieces::one(0);
        let (next, previous) = (self.next(), self.previous());
        let block = |distance| Operand::output(self.back(distance));
        let own = (!self.place.in_place()).then_some(block(0));
        let mut steps = vec![copy(
            whole,
            Operand::input(0),
            own.into_iter().chain([next]),
        )];
        steps.extend((1..ranks - 1).map(|distance| copy(whole, previous, [block(distance), next])));
        steps.push(copy(whole, previous, [block(ranks - 1)]));
        steps
    }

    fn broadcast(&self) -> Vec<Step> {
        let ranks = self.place.ranks();
        let output = Operand::output(0);
        let passes_on = self.back(ranks - 1) != self.place.root();
        let next = passes_on.then(|| self.next());
        let step = if self.place.is_root() {
            let own = (!self.place.in_place()).then_some(output);
            copy(
                Pieces::one(0),
                Operand::input(0),
                own.into_iter().chain(next),
            )
        } else {
            copy(
                Pieces::one(0),
                self.previous(),
                [output].into_iter().chain(next),
            )
        };
        vec![step]
    }

    fn reduce(&self) -> Vec<Step> {
        let whole = Pieces::one(0);
        let input = Operand::input(0);
        let step = if self.place.is_root() {
            last_step(whole, [self.previous(), input], [Operand::output(0)])
        } else if self.back(1) == self.place.root() {
            copy(whole, input, [self.next()])
        } else {
            step(whole, [self.previous(), input], [self.next()])
        };
        vec![step]
    }
}
