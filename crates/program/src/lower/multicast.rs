//! NVLS, multicast by the switch: a read reduces all ranks' memory, a write stores to all ranks.
//!
//! Scratch memory is bound to multicast, so each rank copies its input there and the result from
//! there. Barriers of signals order a turn: all ranks copy before any reads, and all store before
//! any copies its result. No rank needs data that the next turn overwrites.
//!
//! Buffers that are registered are bound, too. Then a rank only reduces and stores its piece or
//! block, in one turn: after all have begun, and before any ends.

use super::place::{ChannelLanes, ChannelMember};
use super::write::{copy, last_step, notify, step, wait};
use crate::{BufferKind, Collective, ConnectionEnd, Lane, Operand, Pieces, Step};

pub(super) fn nvls(place: &ChannelMember<'_>) -> ChannelLanes {
    match place.request.collective {
        Collective::AllGather => all_gather(place),
        Collective::ReduceScatter => reduce_scatter(place),
        _ => all_reduce(place),
    }
}

/// Each rank reduces its piece and multicasts it.
fn all_reduce(place: &ChannelMember<'_>) -> ChannelLanes {
    let ranks = place.ranks();
    let whole = Pieces {
        first: 0,
        count: small(ranks),
    };
    let own = Pieces::one(small(place.rank));
    let mut body = vec![copy(whole, Operand::input(0), [Operand::scratch(0)])];
    meet(place, &mut body);
    let everywhere = Operand::everywhere(BufferKind::Scratch, 0);
    body.push(last_step(own, [everywhere], [everywhere]));
    meet(place, &mut body);
    body.push(copy(whole, Operand::scratch(0), [Operand::output(0)]));
    ChannelLanes::with_scratch(ranks, 1, vec![place.lane(body)])
}

/// Each rank multicasts its block.
fn all_gather(place: &ChannelMember<'_>) -> ChannelLanes {
    let whole = Pieces::one(0);
    let everywhere = Operand::everywhere(BufferKind::Scratch, place.rank);
    let mut body = vec![step(whole, [Operand::input(0)], [everywhere])];
    meet(place, &mut body);
    body.extend(place.own_copy());
    for peer in place.others() {
        let there = Operand::output(peer);
        body.push(copy(whole, Operand::scratch(peer), [there]));
    }
    meet(place, &mut body);
    // Before the first store all launches must have begun.
    let peers = peers(place);
    let mut prologue = notify(&peers);
    prologue.extend(wait(&peers));
    let lane = Lane {
        prologue,
        ..place.lane(body)
    };
    ChannelLanes::with_scratch(1, place.ranks(), vec![lane])
}

/// Each rank reduces its block.
fn reduce_scatter(place: &ChannelMember<'_>) -> ChannelLanes {
    let whole = Pieces::one(0);
    let copies = (0..place.ranks()).map(|block| {
        let set_aside = Operand::scratch(block);
        copy(whole, Operand::input(block), [set_aside])
    });
    let mut body: Vec<Step> = copies.collect();
    meet(place, &mut body);
    let everywhere = Operand::everywhere(BufferKind::Scratch, place.rank);
    body.push(last_step(whole, [everywhere], [Operand::output(0)]));
    meet(place, &mut body);
    ChannelLanes::with_scratch(1, place.ranks(), vec![place.lane(body)])
}

/// On registered buffers.
pub(super) fn registered(place: &ChannelMember<'_>) -> ChannelLanes {
    use BufferKind::{Input, Output};
    let one = Pieces::one(0);
    let (pieces, step) = match place.request.collective {
        Collective::AllGather => {
            let all = Operand::everywhere(Output, place.rank);
            (1, step(one, [Operand::input(0)], [all]))
        }
        Collective::ReduceScatter => {
            let all = Operand::everywhere(Input, place.rank);
            (1, last_step(one, [all], [Operand::output(0)]))
        }
        _ => {
            let all = |buffer| [Operand::everywhere(buffer, 0)];
            let own = Pieces::one(small(place.rank));
            (place.ranks(), last_step(own, all(Input), all(Output)))
        }
    };
    let peers = peers(place);
    let mut meeting = notify(&peers);
    meeting.extend(wait(&peers));
    let lane = Lane {
        prologue: meeting.clone(),
        epilogue: meeting,
        ..place.lane(vec![step])
    };
    ChannelLanes::new(pieces, vec![lane])
}

fn peers(place: &ChannelMember<'_>) -> Vec<ConnectionEnd> {
    place.others().map(|peer| place.connection(peer)).collect()
}

/// A barrier of all ranks.
fn meet(place: &ChannelMember<'_>, steps: &mut Vec<Step>) {
    let peers = peers(place);
    let (now, later) = peers.split_at(peers.len().min(Step::MOST_SIGNALS));
    if let Some(last) = steps.last_mut() {
        last.notifies = now.to_vec();
    }
    steps.extend(notify(later));
    steps.extend(wait(&peers));
}

/// `Channels` bounds the number of ranks.
fn small(ranks: u32) -> u16 {
    u16::try_from(ranks).unwrap_or(u16::MAX)
}
