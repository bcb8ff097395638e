//! One rank per channel, the leader, moves and reduces everything in the buffers of all ranks.
//!
//! The others only say that their buffers may be accessed, and wait. With more ranks than cores
//! this is the least work: each rank runs once per launch, and the number of signals grows with the
//! number of ranks, not with its square.

use super::direct::{Touch, inputs, of_rank, reduce};
use super::place::{ChannelLanes, ChannelMember};
use super::write::{copy, spread};
use crate::{BufferKind, Collective, Operand, Pieces, Step};

pub(super) fn leader(place: &ChannelMember<'_>) -> ChannelLanes {
    let leader = leader_of(place);
    if place.rank != leader {
        let touch = Touch {
            by: vec![leader],
            of: Vec::new(),
        };
        return ChannelLanes::new(1, vec![touch.lane(place, Vec::new())]);
    }
    let body = match place.request.collective {
        Collective::AllReduce => all_reduce(place),
        Collective::ReduceScatter => reduce_scatter(place),
        Collective::AllGather => all_gather(place),
        _ => all_to_all(place),
    };
    let touch = Touch {
        by: Vec::new(),
        of: place.others().collect(),
    };
    ChannelLanes::new(1, vec![touch.lane(place, body)])
}

/// The leaders of the channels are as far from each other as possible, so that they run on
/// different cores.
fn leader_of(place: &ChannelMember<'_>) -> u32 {
    let channels = u64::from(place.request.channels.count());
    let leader = u64::from(place.channel) * u64::from(place.ranks()) / channels;
    u32::try_from(leader).unwrap_or(0)
}

/// All ranks, beginning with this one.
fn all(place: &ChannelMember<'_>) -> impl Iterator<Item = u32> {
    (0..place.ranks()).map(|distance| place.after(distance))
}

fn all_reduce(place: &ChannelMember<'_>) -> Vec<Step> {
    // The own input comes first, because partial sums overwrite it in place.
    let inputs = inputs(place, all(place), 0);
    let outputs: Vec<Operand> = all(place)
        .map(|rank| of_rank(place, rank, BufferKind::Output, 0))
        .collect();
    reduce(Pieces::one(0), &inputs, &outputs)
}

fn reduce_scatter(place: &ChannelMember<'_>) -> Vec<Step> {
    let blocks = all(place).flat_map(|block| {
        // The owner's input comes first, because partial sums overwrite it in place.
        let others = all(place).filter(move |rank| *rank != block);
        let inputs = inputs(place, [block].into_iter().chain(others), block);
        let output = of_rank(place, block, BufferKind::Output, 0);
        reduce(Pieces::one(0), &inputs, &[output])
    });
    blocks.collect()
}

fn all_gather(place: &ChannelMember<'_>) -> Vec<Step> {
    let blocks = all(place).flat_map(|block| {
        let missing = all(place).filter(move |rank| !(place.in_place() && *rank == block));
        let outputs: Vec<Operand> = missing
            .map(|rank| of_rank(place, rank, BufferKind::Output, block))
            .collect();
        let input = of_rank(place, block, BufferKind::Input, 0);
        spread(Pieces::one(0), input, &outputs)
    });
    blocks.collect()
}

fn all_to_all(place: &ChannelMember<'_>) -> Vec<Step> {
    let pairs = all(place).flat_map(|to| all(place).map(move |from| (from, to)));
    let copies = pairs.map(|(from, to)| {
        let theirs = of_rank(place, from, BufferKind::Input, to);
        let output = of_rank(place, to, BufferKind::Output, from);
        copy(Pieces::one(0), theirs, [output])
    });
    copies.collect()
}
