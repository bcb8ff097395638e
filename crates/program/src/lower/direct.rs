//! Meshes that read and write the peers' buffers in place.
//!
//! A peer signals that its launch has begun before others access its memory, and they signal before
//! its launch may end. That is one exchange of signals before the turns and one after them,
//! whatever the message size.

use super::place::{ChannelLanes, ChannelMember};
use super::write::{Fold, copy, notify, spread, wait};
use crate::{BufferKind, Collective, ConnectionEnd, Lane, Operand, Pieces, Step};

/// Which ranks access whose memory.
pub(super) struct Touch {
    /// Ranks that access this rank's memory.
    pub by: Vec<u32>,
    /// Ranks whose memory this rank accesses.
    pub of: Vec<u32>,
}

impl Touch {
    fn all(place: &ChannelMember<'_>) -> Self {
        Self {
            by: place.others().collect(),
            of: place.others().collect(),
        }
    }

    /// All others access the root's memory.
    fn of_root(place: &ChannelMember<'_>) -> Self {
        if place.is_root() {
            Self {
                by: place.others().collect(),
                of: Vec::new(),
            }
        } else {
            Self {
                by: Vec::new(),
                of: vec![place.root()],
            }
        }
    }

    /// The root accesses the memory of all others, and they access the root's.
    fn both_directions(place: &ChannelMember<'_>) -> Self {
        let root = || vec![place.root()];
        if place.is_root() {
            Self::all(place)
        } else {
            Self {
                by: root(),
                of: root(),
            }
        }
    }

    pub(super) fn lane(&self, place: &ChannelMember<'_>, body: Vec<Step>) -> Lane {
        Lane {
            channel: place.channel,
            prologue: self.begin(place),
            body,
            epilogue: self.end(place),
        }
    }

    /// The steps before the first access.
    pub(super) fn begin(&self, place: &ChannelMember<'_>) -> Vec<Step> {
        let mut steps = notify(&signals(place, &self.by));
        steps.extend(wait(&signals(place, &self.of)));
        steps
    }

    /// The steps after the last access.
    pub(super) fn end(&self, place: &ChannelMember<'_>) -> Vec<Step> {
        let mut steps = notify(&signals(place, &self.of));
        steps.extend(wait(&signals(place, &self.by)));
        steps
    }
}

pub(super) fn signals(place: &ChannelMember<'_>, peers: &[u32]) -> Vec<ConnectionEnd> {
    peers.iter().map(|peer| place.connection(*peer)).collect()
}

pub(super) fn of_rank(
    place: &ChannelMember<'_>,
    rank: u32,
    buffer: BufferKind,
    block: u32,
) -> Operand {
    if rank == place.rank {
        Operand::local(buffer, block)
    } else {
        Operand::peer(rank, buffer, block)
    }
}

/// The piece that has a rank's number.
fn piece(rank: u32) -> Pieces {
    Pieces::one(u16::try_from(rank).unwrap_or(u16::MAX))
}

pub(super) fn mesh(place: &ChannelMember<'_>) -> ChannelLanes {
    let whole = Pieces::one(0);
    let root = place.root();
    let (touch, body) = match place.request.collective {
        Collective::AllReduce if place.in_place() => return one_shot(place),
        Collective::AllReduce => {
            let inputs = inputs(place, 0..place.ranks(), 0);
            let output = Operand::output(0);
            (Touch::all(place), reduce(whole, &inputs, &[output]))
        }
        Collective::ReduceScatter => {
            let order = [place.rank].into_iter().chain(place.others());
            let inputs = inputs(place, order, place.rank);
            let output = Operand::output(0);
            (Touch::all(place), reduce(whole, &inputs, &[output]))
        }
        Collective::Reduce => return reduce_by_all(place),
        Collective::Broadcast if place.in_place() => return broadcast_in_place(place),
        // One read and a write to each rank moves fewer bytes than a read by each.
        Collective::AllGather => {
            let own = (!place.in_place()).then_some(place.rank);
            let outputs: Vec<Operand> = own
                .into_iter()
                .chain(place.others())
                .map(|rank| of_rank(place, rank, BufferKind::Output, place.rank))
                .collect();
            (
                Touch::all(place),
                spread(whole, Operand::input(0), &outputs),
            )
        }
        Collective::AllToAll => {
            let pull = |peer| {
                let theirs = Operand::peer(peer, BufferKind::Input, place.rank);
                copy(whole, theirs, [Operand::output(peer)])
            };
            let pulls = place.others().map(pull);
            (
                Touch::all(place),
                place.own_copy().into_iter().chain(pulls).collect(),
            )
        }
        _ if place.is_root() => (
            Touch::of_root(place),
            place.own_copy().into_iter().collect(),
        ),
        Collective::Gather => {
            let there = Operand::peer(root, BufferKind::Output, place.rank);
            (
                Touch::of_root(place),
                vec![copy(whole, Operand::input(0), [there])],
            )
        }
        collective => {
            let block = if collective == Collective::Scatter {
                place.rank
            } else {
                0
            };
            let theirs = Operand::peer(root, BufferKind::Input, block);
            (
                Touch::of_root(place),
                vec![copy(whole, theirs, [Operand::output(0)])],
            )
        }
    };
    ChannelLanes::new(1, vec![touch.lane(place, body)])
}

pub(super) fn inputs(
    place: &ChannelMember<'_>,
    ranks: impl Iterator<Item = u32>,
    block: u32,
) -> Vec<Operand> {
    ranks
        .map(|rank| of_rank(place, rank, BufferKind::Input, block))
        .collect()
}

pub(super) fn reduce(pieces: Pieces, operands: &[Operand], destinations: &[Operand]) -> Vec<Step> {
    Fold {
        pieces,
        operands,
        accumulator: destinations[0],
        destinations,
        finish: true,
        alike: false,
    }
    .steps()
}

/// All-reduce through scratch memory, also in place: every rank copies its input to scratch memory
/// and reduces all copies.
///
/// Scratch memory holds one window, so each turn needs its own exchange of signals.
pub(super) fn one_shot(place: &ChannelMember<'_>) -> ChannelLanes {
    let whole = Pieces::one(0);
    let peers: Vec<u32> = place.others().collect();
    let peers = signals(place, &peers);
    let mut body = vec![copy(whole, Operand::input(0), [Operand::scratch(0)])];
    give(&mut body, &peers);
    let copies: Vec<Operand> = (0..place.ranks())
        .map(|rank| of_rank(place, rank, BufferKind::Scratch, 0))
        .collect();
    let mut fold = reduce(whole, &copies, &[Operand::output(0)]);
    let mut waits = wait(&peers);
    // The last wait belongs to the first step of the reduction.
    if let (Some(last), Some(first)) = (waits.pop(), fold.first_mut()) {
        first.waits = last.waits;
    }
    body.extend(waits);
    body.extend(fold);
    give(&mut body, &peers);
    body.extend(wait(&peers));
    ChannelLanes::with_scratch(1, 1, vec![place.lane(body)])
}

/// Sends signals after the last step.
fn give(steps: &mut Vec<Step>, signals: &[ConnectionEnd]) {
    let (now, later) = signals.split_at(signals.len().min(Step::MOST_SIGNALS));
    if let Some(last) = steps.last_mut() {
        last.notifies = now.to_vec();
    }
    steps.extend(notify(later));
}

/// All-reduce: every rank reduces its piece of all inputs and writes it into all outputs.
///
/// This is correct in place, because no other rank reads that piece. It moves the fewest bytes:
/// each input is read once and each output written once.
pub(super) fn two_phase(place: &ChannelMember<'_>) -> ChannelLanes {
    let order = || [place.rank].into_iter().chain(place.others());
    let inputs = inputs(place, order(), 0);
    let outputs: Vec<Operand> = order()
        .map(|rank| of_rank(place, rank, BufferKind::Output, 0))
        .collect();
    let body = reduce(piece(place.rank), &inputs, &outputs);
    ChannelLanes::new(place.ranks(), vec![Touch::all(place).lane(place, body)])
}

/// Reduce: every rank reduces its piece of all inputs into the root's output, to share the work.
///
/// The root's input comes first, because partial sums overwrite it in place.
fn reduce_by_all(place: &ChannelMember<'_>) -> ChannelLanes {
    let root = place.root();
    let others = (1..place.ranks()).map(|distance| (root + distance) % place.ranks());
    let inputs = inputs(place, [root].into_iter().chain(others), 0);
    let output = of_rank(place, root, BufferKind::Output, 0);
    let body = reduce(piece(place.rank), &inputs, &[output]);
    ChannelLanes::new(place.ranks(), vec![Touch::all(place).lane(place, body)])
}

/// Broadcast in place: every rank reads from the root, and the root writes one piece to all others.
fn broadcast_in_place(place: &ChannelMember<'_>) -> ChannelLanes {
    let root = place.root();
    let body = if place.is_root() {
        let outputs: Vec<Operand> = place
            .others()
            .map(|peer| Operand::peer(peer, BufferKind::Output, 0))
            .collect();
        spread(piece(0), Operand::input(0), &outputs)
    } else {
        let rest = Pieces {
            first: 1,
            count: piece(place.ranks() - 1).first,
        };
        let theirs = Operand::peer(root, BufferKind::Input, 0);
        vec![copy(rest, theirs, [Operand::output(0)])]
    };
    ChannelLanes::new(
        place.ranks(),
        vec![Touch::both_directions(place).lane(place, body)],
    )
}
