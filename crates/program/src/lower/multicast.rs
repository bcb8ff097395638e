//! NVLS, multicast by the switch: a read reduces all ranks' memory, a write stores to all ranks.
//!
//! Only scratch memory is bound to multicast, so each rank copies its input there and the result
//! from there. A turn has two halves. In each, signals between all ranks order the phases: all ranks
//! copy before any reads, and all store before any copies its result. A rank waits for a phase of
//! one half after its own work on the other half, so that the wait and the copies overlap with the
//! other half's reduction. No rank needs data that the next turn overwrites.

use super::place::{ChannelLanes, ChannelMember};
use super::write::{copy, last_step, notify, step, wait};
use crate::{Collective, ConnectionEnd, Lane, Operand, Pieces, Step};

/// Halves of a turn.
const HALVES: u32 = 2;

pub fn nvls(place: &ChannelMember<'_>) -> ChannelLanes {
    match place.request.collective {
        Collective::AllGather => all_gather(place),
        Collective::ReduceScatter => reduce_scatter(place),
        _ => all_reduce(place),
    }
}

/// Each rank reduces its piece of each half and multicasts it.
fn all_reduce(place: &ChannelMember<'_>) -> ChannelLanes {
    let ranks = place.ranks();
    let whole = |half: u32| Pieces {
        first: small(half * ranks),
        count: small(ranks),
    };
    let everywhere = Operand::Multicast { block: 0 };
    let peers = peers(place);
    let mut body = Vec::new();
    for half in 0..HALVES {
        body.push(copy(whole(half), Operand::input(0), [Operand::scratch(0)]));
        tell(&peers, &mut body);
    }
    for half in 0..HALVES {
        body.extend(wait(&peers));
        let own = Pieces::one(small(half * ranks + place.rank));
        body.push(last_step(own, [everywhere], [everywhere]));
        tell(&peers, &mut body);
    }
    for half in 0..HALVES {
        body.extend(wait(&peers));
        body.push(copy(whole(half), Operand::scratch(0), [Operand::output(0)]));
    }
    ChannelLanes::with_scratch(HALVES * ranks, 1, vec![place.lane(body)])
}

/// Each rank multicasts its block.
fn all_gather(place: &ChannelMember<'_>) -> ChannelLanes {
    let everywhere = Operand::Multicast { block: place.rank };
    let peers = peers(place);
    let mut body = Vec::new();
    for half in 0..HALVES {
        let half = Pieces::one(small(half));
        body.push(step(half, [Operand::input(0)], [everywhere]));
        tell(&peers, &mut body);
    }
    for half in 0..HALVES {
        let half = Pieces::one(small(half));
        let own = place.own_copy();
        body.extend(own.map(|own| Step {
            pieces: half,
            ..own
        }));
        body.extend(wait(&peers));
        for peer in place.others() {
            let there = Operand::output(peer);
            body.push(copy(half, Operand::scratch(peer), [there]));
        }
        tell(&peers, &mut body);
    }
    // All have copied both halves before the next turn stores.
    (0..HALVES).for_each(|_| body.extend(wait(&peers)));
    // Before the first store all launches must have begun.
    let mut prologue = notify(&peers);
    prologue.extend(wait(&peers));
    let lane = Lane {
        prologue,
        ..place.lane(body)
    };
    ChannelLanes::with_scratch(HALVES, place.ranks(), vec![lane])
}

/// Each rank reduces its block.
fn reduce_scatter(place: &ChannelMember<'_>) -> ChannelLanes {
    let everywhere = Operand::Multicast { block: place.rank };
    let peers = peers(place);
    let mut body: Vec<Step> = Vec::new();
    for half in 0..HALVES {
        let half = Pieces::one(small(half));
        let copies = (0..place.ranks()).map(|block| {
            let set_aside = Operand::scratch(block);
            copy(half, Operand::input(block), [set_aside])
        });
        body.extend(copies);
        tell(&peers, &mut body);
    }
    for half in 0..HALVES {
        let half = Pieces::one(small(half));
        body.extend(wait(&peers));
        body.push(last_step(half, [everywhere], [Operand::output(0)]));
        tell(&peers, &mut body);
    }
    // All have read both halves before the next turn copies.
    (0..HALVES).for_each(|_| body.extend(wait(&peers)));
    ChannelLanes::with_scratch(HALVES, place.ranks(), vec![place.lane(body)])
}

fn peers(place: &ChannelMember<'_>) -> Vec<ConnectionEnd> {
    place.others().map(|peer| place.connection(peer)).collect()
}

/// Tells all ranks once the last step is done.
fn tell(peers: &[ConnectionEnd], steps: &mut Vec<Step>) {
    let (now, later) = peers.split_at(peers.len().min(Step::MOST_SIGNALS));
    if let Some(last) = steps.last_mut() {
        last.notifies = now.to_vec();
    }
    steps.extend(notify(later));
}

/// `Channels` bounds the number of ranks.
fn small(ranks: u32) -> u16 {
    u16::try_from(ranks).unwrap_or(u16::MAX)
}
