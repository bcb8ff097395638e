//! All-reduces that are composed of two other collectives.

use super::halving::Core;
use super::place::{ChannelLanes, ChannelMember};
use super::write::{copy, last_step, step};
use crate::{Operand, Pieces, Step};

/// Reduces along the chain to the last rank of the ring, and broadcasts from there.
///
/// The two have lanes of their own, so that one window is broadcast while the next is reduced.
pub(super) fn reduce_broadcast(place: &ChannelMember<'_>) -> ChannelLanes {
    let (position, ring) = place.ring();
    let ranks = place.ranks();
    let at = |position: u32| ring[(position % ranks) as usize];
    let (next, previous) = (at(position + 1), at(position + ranks - 1));
    let whole = Pieces::one(0);
    let (input, output) = (Operand::input(0), Operand::output(0));
    if position == ranks - 1 {
        let both = [place.fifo(previous), input];
        let step = last_step(whole, both, [output, place.second_fifo(next)]);
        return ChannelLanes::new(1, vec![place.lane(vec![step])]);
    }
    let received = (position > 0).then(|| place.fifo(previous));
    let sources = received.into_iter().chain([input]);
    let up = step(whole, sources, [place.fifo(next)]);
    let passes_on = position + 2 < ranks;
    let on = passes_on.then(|| place.second_fifo(next));
    let down = copy(
        whole,
        place.second_fifo(previous),
        [output].into_iter().chain(on),
    );
    ChannelLanes::new(1, vec![place.lane(vec![up]), place.lane(vec![down])])
}

/// Recursive halving, then recursive doubling. Ranks beyond a power of two send their input to a
/// partner and get the result at the end.
pub(super) fn halving_doubling(place: &ChannelMember<'_>) -> ChannelLanes {
    let core = Core::new(place.ranks());
    let (input, output) = (Operand::input(0), Operand::output(0));
    // Whole windows are sent as two halves, so that slots are no longer than the first exchange
    // needs.
    let range = |first: u32, count: u32| Pieces {
        first: u16::try_from(first).unwrap_or(u16::MAX),
        count: u16::try_from(count).unwrap_or(u16::MAX),
    };
    let half = core.ranks / 2;
    let halves = [range(0, half), range(half, half)];
    let rank = place.rank;
    let mut body: Vec<Step> = Vec::new();
    if let Some(partner) = core.partner_of_extra(rank) {
        let partner = place.fifo(partner);
        body.extend(halves.map(|pieces| copy(pieces, input, [partner])));
        body.extend(halves.map(|pieces| copy(pieces, partner, [output])));
        return ChannelLanes::new(core.ranks, vec![place.lane(body)]);
    }
    let extra = core.extra_of(rank).map(|extra| place.fifo(extra));
    let mut source = input;
    if let Some(extra) = extra {
        body.extend(halves.map(|pieces| step(pieces, [extra, input], [output])));
        source = output;
    }
    for distance in core.distances().rev() {
        let partner = place.fifo(rank ^ distance);
        // The range that the two divide, and the part that each keeps.
        let first = rank & !(2 * distance - 1);
        let (mine, theirs) = if rank & distance == 0 {
            (first, first + distance)
        } else {
            (first + distance, first)
        };
        body.push(copy(range(theirs, distance), source, [partner]));
        let both = [partner, source];
        body.push(if distance == 1 {
            // The last exchange of the halving is with the same rank as the first of the doubling.
            last_step(range(mine, 1), both, [output, partner])
        } else {
            step(range(mine, distance), both, [output])
        });
        source = output;
    }
    for distance in core.distances() {
        let partner = place.fifo(rank ^ distance);
        let mine = rank & !(distance - 1);
        if distance > 1 {
            body.push(copy(range(mine, distance), output, [partner]));
        }
        body.push(copy(range(mine ^ distance, distance), partner, [output]));
    }
    if let Some(extra) = extra {
        body.extend(halves.map(|pieces| copy(pieces, output, [extra])));
    }
    ChannelLanes::new(core.ranks, vec![place.lane(body)])
}
