//! Bruck's algorithms: in round k every rank sends to the rank 2^k away.

use std::iter;

use super::place::{ChannelLanes, ChannelMember};
use super::write::copy;
use crate::{Collective, Operand, Pieces, Step};

pub(super) fn bruck(place: &ChannelMember<'_>) -> ChannelLanes {
    match place.request.collective {
        Collective::AllGather => all_gather(place),
        _ => all_to_all(place),
    }
}

/// 1, 2, 4 … below the number of ranks.
fn distances(ranks: u32) -> impl Iterator<Item = u32> {
    iter::successors(Some(1_u32), |distance| Some(distance * 2))
        .take_while(move |distance| *distance < ranks)
}

/// Every rank sends its blocks to the rank `distance` before it, which doubles its blocks.
fn all_gather(place: &ChannelMember<'_>) -> ChannelLanes {
    let (whole, ranks, rank) = (Pieces::one(0), place.ranks(), place.rank);
    let output = |distance| Operand::output(place.after(distance));
    let own = (!place.in_place()).then_some(Operand::output(rank));
    let mut body: Vec<Step> = Vec::new();
    for distance in distances(ranks) {
        let (to, from) = (
            place.fifo(place.before(distance)),
            place.fifo(place.after(distance)),
        );
        for block in 0..distance.min(ranks - distance) {
            body.push(if distance == 1 {
                copy(whole, Operand::input(0), own.into_iter().chain([to]))
            } else {
                copy(whole, output(block), [to])
            });
            body.push(copy(whole, from, [output(distance + block)]));
        }
    }
    ChannelLanes::new(1, vec![place.lane(body)])
}

/// A block for the rank at distance d makes one hop for each bit of d, smallest first.
///
/// It is kept in scratch memory between hops; in place also after the last hop, until the input is
/// no longer needed.
fn all_to_all(place: &ChannelMember<'_>) -> ChannelLanes {
    let (whole, ranks) = (Pieces::one(0), place.ranks());
    let waiting = |offset: u32| Operand::scratch(offset - 1);
    let arrived = |offset: u32| Operand::output(place.before(offset));
    let mut body: Vec<Step> = place.own_copy().into_iter().collect();
    for distance in distances(ranks) {
        let (to, from) = (
            place.fifo(place.after(distance)),
            place.fifo(place.before(distance)),
        );
        for offset in (1..ranks).filter(|offset| offset & distance != 0) {
            let first_hop = offset & (distance - 1) == 0;
            let last_hop = offset < 2 * distance;
            let source = if first_hop {
                Operand::input(place.after(offset))
            } else {
                waiting(offset)
            };
            body.push(copy(whole, source, [to]));
            let there = if last_hop && !place.in_place() {
                arrived(offset)
            } else {
                waiting(offset)
            };
            body.push(copy(whole, from, [there]));
        }
    }
    if place.in_place() {
        body.extend((1..ranks).map(|offset| copy(whole, waiting(offset), [arrived(offset)])));
    }
    // With two and three ranks every block makes a single hop.
    let blocks = if place.in_place() || ranks > 3 {
        ranks - 1
    } else {
        0
    };
    ChannelLanes::with_scratch(1, blocks, vec![place.lane(body)])
}
