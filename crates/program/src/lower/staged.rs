//! Meshes through scratch memory: every rank copies what others need to its scratch memory, which
//! they map, and they read it there. For buffers that others cannot access, or only slowly.
//!
//! Scratch memory holds one window, so each turn has its own signals.

use super::direct::{of_rank, one_shot, reduce, signals};
use super::place::{ChannelLanes, ChannelMember};
use super::write::{copy, notify, spread, wait};
use crate::{BufferKind, Collective, Operand, Pieces, Step};

/// The mesh in one phase; a reduce takes two.
pub(super) fn mesh(place: &ChannelMember<'_>) -> ChannelLanes {
    let whole = Pieces::one(0);
    let (input, output, scratch) = (Operand::input, Operand::output, Operand::scratch);
    let theirs = |peer, block| Operand::peer(peer, BufferKind::Scratch, block);
    let others: Vec<u32> = place.others().collect();
    let root = vec![place.root()];
    let (readers, read) = match place.request.collective {
        collective if !collective.has_root() => (others.clone(), others.clone()),
        Collective::Broadcast | Collective::Scatter if place.is_root() => (others.clone(), vec![]),
        Collective::Broadcast | Collective::Scatter => (vec![], root),
        _ if place.is_root() => (vec![], others.clone()),
        _ => (root, vec![]),
    };
    let blocks = |block: fn(u32) -> Operand| {
        let stage = move |peer| copy(whole, block(peer), [Operand::scratch(peer)]);
        others.iter().map(move |peer| stage(*peer))
    };
    let (count, staged, taken): (u32, Vec<Step>, Vec<Step>) = match place.request.collective {
        Collective::AllReduce => return one_shot(place),
        Collective::Reduce => return two_phase(place),
        Collective::AllGather => {
            let own = (!place.in_place()).then_some(output(place.rank));
            let both: Vec<Operand> = own.into_iter().chain([scratch(0)]).collect();
            let take = |peer: &u32| copy(whole, theirs(*peer, 0), [output(*peer)]);
            let staged = spread(whole, input(0), &both);
            (1, staged, others.iter().map(take).collect())
        }
        Collective::ReduceScatter => {
            let order = [place.rank].into_iter().chain(place.others());
            let sources: Vec<Operand> = order
                .map(|rank| match rank == place.rank {
                    true => input(rank),
                    false => theirs(rank, place.rank),
                })
                .collect();
            let taken = reduce(whole, &sources, &[output(0)]);
            (place.ranks(), blocks(Operand::input).collect(), taken)
        }
        Collective::AllToAll => {
            let take = |peer: &u32| copy(whole, theirs(*peer, place.rank), [output(*peer)]);
            let staged = blocks(Operand::input).chain(place.own_copy());
            let staged = staged.collect();
            (place.ranks(), staged, others.iter().map(take).collect())
        }
        Collective::Broadcast if place.is_root() => {
            let own = (!place.in_place()).then_some(output(0));
            let both: Vec<Operand> = own.into_iter().chain([scratch(0)]).collect();
            (1, spread(whole, input(0), &both), vec![])
        }
        Collective::Broadcast => {
            let take = copy(whole, theirs(place.root(), 0), [output(0)]);
            (1, vec![], vec![take])
        }
        Collective::Scatter if place.is_root() => {
            let staged = blocks(Operand::input).chain(place.own_copy());
            (place.ranks(), staged.collect(), vec![])
        }
        Collective::Scatter => {
            let take = copy(whole, theirs(place.root(), place.rank), [output(0)]);
            (place.ranks(), vec![], vec![take])
        }
        // The root of a gather; `send_recv` writes transfers.
        _ if place.is_root() => {
            let take = |peer: &u32| copy(whole, theirs(*peer, 0), [output(*peer)]);
            let staged = place.own_copy().into_iter().collect();
            (1, staged, others.iter().map(take).collect())
        }
        _ => (1, vec![copy(whole, input(0), [scratch(0)])], vec![]),
    };
    let mut body = staged;
    exchange(place, &mut body, &readers, &read);
    body.extend(taken);
    exchange(place, &mut body, &read, &readers);
    ChannelLanes::with_scratch(1, count, vec![place.lane(body)])
}

/// Tells ranks, and waits for ranks.
fn exchange(place: &ChannelMember<'_>, body: &mut Vec<Step>, to: &[u32], from: &[u32]) {
    body.extend(notify(&signals(place, to)));
    body.extend(wait(&signals(place, from)));
}

/// All-reduce and reduce: every rank reduces its piece of all inputs into its scratch memory, from
/// where all others, or the root, take it.
pub(super) fn two_phase(place: &ChannelMember<'_>) -> ChannelLanes {
    let piece = |rank: u32| Pieces::one(u16::try_from(rank).unwrap_or(u16::MAX));
    let others: Vec<u32> = place.others().collect();
    let root = vec![place.root()];
    let (takers, taken) = match place.request.collective {
        Collective::Reduce if place.is_root() => (vec![], others.clone()),
        Collective::Reduce => (root, vec![]),
        _ => (others.clone(), others.clone()),
    };
    let own = Operand::scratch(0);
    let stage = |peer: &u32| copy(piece(*peer), Operand::input(0), [own]);
    let mut body: Vec<Step> = others.iter().map(stage).collect();
    exchange(place, &mut body, &others, &others);
    let theirs = |rank| of_rank(place, rank, BufferKind::Scratch, 0);
    let sources = [Operand::input(0)].into_iter();
    let sources: Vec<Operand> = sources.chain(place.others().map(theirs)).collect();
    // The own piece of scratch memory was not needed so far.
    let keeps = place.request.collective == Collective::AllReduce || place.is_root();
    let shows = !takers.is_empty();
    let keeps = keeps.then_some(Operand::output(0)).into_iter();
    let results: Vec<Operand> = keeps.chain(shows.then_some(own)).collect();
    body.extend(reduce(piece(place.rank), &sources, &results));
    exchange(place, &mut body, &takers, &taken);
    let take = |peer: &u32| copy(piece(*peer), theirs(*peer), [Operand::output(0)]);
    body.extend(taken.iter().map(take));
    // Nobody writes to scratch memory again before all have read it.
    exchange(place, &mut body, &others, &others);
    ChannelLanes::with_scratch(place.ranks(), 1, vec![place.lane(body)])
}
