//! Meshes through FIFOs.

use super::place::{ChannelLanes, ChannelMember};
use super::write::{Fold, copy, spread};
use crate::{Collective, Operand, Pieces, Step};

/// The mesh in one phase. Every rank sends everything before it receives, so it works in place.
pub(super) fn mesh(place: &ChannelMember<'_>) -> ChannelLanes {
    let whole = Pieces::one(0);
    let fifos: Vec<Operand> = place.others().map(|peer| place.fifo(peer)).collect();
    let (input, output) = (Operand::input, Operand::output);
    let root = place.root();
    let body = match place.request.collective {
        Collective::AllReduce => return one_shot(place),
        Collective::AllGather => {
            let own = (!place.in_place()).then_some(output(place.rank));
            let all: Vec<Operand> = own.into_iter().chain(fifos).collect();
            let mut body = spread(whole, input(0), &all);
            body.extend(receives(place));
            body
        }
        Collective::ReduceScatter => {
            let mut body: Vec<Step> = sends(place).collect();
            let own = [input(place.rank)].into_iter();
            body.extend(
                Fold {
                    pieces: whole,
                    operands: &own.chain(fifos).collect::<Vec<_>>(),
                    accumulator: output(0),
                    destinations: &[output(0)],
                    finish: true,
                    alike: false,
                }
                .steps(),
            );
            body
        }
        Collective::Broadcast if place.is_root() => {
            let own = (!place.in_place()).then_some(output(0));
            let all: Vec<Operand> = own.into_iter().chain(fifos).collect();
            spread(whole, input(0), &all)
        }
        Collective::Broadcast | Collective::Scatter if !place.is_root() => {
            vec![copy(whole, place.fifo(root), [output(0)])]
        }
        Collective::Reduce if place.is_root() => Fold {
            pieces: whole,
            operands: &[input(0)].into_iter().chain(fifos).collect::<Vec<_>>(),
            accumulator: output(0),
            destinations: &[output(0)],
            finish: true,
            alike: false,
        }
        .steps(),
        Collective::Reduce | Collective::Gather if !place.is_root() => {
            vec![copy(whole, input(0), [place.fifo(root)])]
        }
        Collective::AllToAll => {
            let own = place.own_copy().into_iter();
            sends(place).chain(own).chain(receives(place)).collect()
        }
        Collective::Gather => place
            .own_copy()
            .into_iter()
            .chain(receives(place))
            .collect(),
        // The root of a scatter; `send_recv` writes transfers.
        _ => sends(place).chain(place.own_copy()).collect(),
    };
    ChannelLanes::new(1, vec![place.lane(body)])
}

/// Sends to each peer its block of the input.
fn sends(place: &ChannelMember<'_>) -> impl Iterator<Item = Step> {
    let send = |peer| copy(Pieces::one(0), Operand::input(peer), [place.fifo(peer)]);
    place.others().map(send)
}

/// Receives from each peer its block of the output, beginning with the rank before this one.
fn receives(place: &ChannelMember<'_>) -> impl Iterator<Item = Step> {
    let receive = |peer| copy(Pieces::one(0), place.fifo(peer), [Operand::output(peer)]);
    let peers = (1..place.ranks()).map(|distance| place.before(distance));
    peers.map(receive)
}

/// All-reduce: every rank sends its input to all and reduces all inputs in rank order, so that all
/// results are equal to the bit.
fn one_shot(place: &ChannelMember<'_>) -> ChannelLanes {
    let whole = Pieces::one(0);
    let fifos: Vec<Operand> = place.others().map(|peer| place.fifo(peer)).collect();
    let mut body = spread(whole, Operand::input(0), &fifos);
    let operand = |rank| {
        if rank == place.rank {
            Operand::input(0)
        } else {
            place.fifo(rank)
        }
    };
    let operands: Vec<Operand> = (0..place.ranks()).map(operand).collect();
    // In place, partial sums may overwrite the own input only after it has been read.
    let reads_late = place.in_place()
        && operands.len() > Step::MOST_OPERANDS
        && place.rank as usize >= Step::MOST_FIFOS;
    let accumulator = if reads_late {
        Operand::scratch(0)
    } else {
        Operand::output(0)
    };
    body.extend(
        Fold {
            pieces: whole,
            operands: &operands,
            accumulator,
            destinations: &[Operand::output(0)],
            finish: true,
            alike: true,
        }
        .steps(),
    );
    ChannelLanes::with_scratch(1, u32::from(reads_late), vec![place.lane(body)])
}

/// All-reduce: every rank reduces its piece of all inputs, then sends it to all.
pub(super) fn two_phase(place: &ChannelMember<'_>) -> ChannelLanes {
    let piece = |rank: u32| Pieces::one(u16::try_from(rank).unwrap_or(u16::MAX));
    let fifos: Vec<Operand> = place.others().map(|peer| place.fifo(peer)).collect();
    let send = |peer| copy(piece(peer), Operand::input(0), [place.fifo(peer)]);
    let receive = |peer| copy(piece(peer), place.fifo(peer), [Operand::output(0)]);
    let with_fifos =
        |own: Operand| -> Vec<Operand> { [own].into_iter().chain(fifos.iter().copied()).collect() };
    let mut body: Vec<Step> = place.others().map(send).collect();
    body.extend(
        Fold {
            pieces: piece(place.rank),
            operands: &with_fifos(Operand::input(0)),
            accumulator: Operand::output(0),
            destinations: &with_fifos(Operand::output(0)),
            finish: true,
            alike: false,
        }
        .steps(),
    );
    body.extend((1..place.ranks()).map(|distance| receive(place.before(distance))));
    ChannelLanes::new(place.ranks(), vec![place.lane(body)])
}
