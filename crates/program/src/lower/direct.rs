//! Everyone with everyone, reading and writing the peers' buffers where they are.
//!
//! Before a rank touches a peer's memory, the peer has said that its launch has begun; before a launch ends, everyone who
//! touched its memory has said so. That is one exchange of signals before the turns and one after them, however long the
//! message is.

use super::place::{ChannelLanes, ChannelMember};
use super::write::{Fold, copy, notify, spread, wait};
use crate::{BufferKind, Collective, ConnectionEnd, Lane, Operand, Pieces, Step};

/// Who touches whose memory.
struct Touch {
    /// Ranks that touch this rank's.
    by: Vec<u32>,
    /// Ranks whose memory this rank touches.
    of: Vec<u32>,
}

impl Touch {
    fn all(place: &ChannelMember<'_>) -> Self {
        Self {
            by: place.others().collect(),
            of: place.others().collect(),
        }
    }

    /// The root's memory is touched by all others.
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

    /// The root touches the memory of all others, and they touch the root's.
    fn both_ways(place: &ChannelMember<'_>) -> Self {
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

    fn lane(&self, place: &ChannelMember<'_>, body: Vec<Step>) -> Lane {
        let (by, of) = (signals(place, &self.by), signals(place, &self.of));
        let mut prologue = notify(&by);
        prologue.extend(wait(&of));
        let mut epilogue = notify(&of);
        epilogue.extend(wait(&by));
        Lane {
            channel: place.channel,
            prologue,
            body,
            epilogue,
        }
    }
}

fn signals(place: &ChannelMember<'_>, peers: &[u32]) -> Vec<ConnectionEnd> {
    peers.iter().map(|peer| place.connection(*peer)).collect()
}

/// A rank's block: its own, or a peer's.
fn of_rank(place: &ChannelMember<'_>, rank: u32, buffer: BufferKind, block: u32) -> Operand {
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

/// All in one phase.
pub fn mesh(place: &ChannelMember<'_>) -> ChannelLanes {
    let whole = Pieces::one(0);
    let root = place.root();
    let (touch, body) = match place.request.collective {
        Collective::AllReduce if place.in_place() => return one_shot_in_place(place),
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
        // Read once, written everywhere: fewer bytes than if everyone read it.
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

/// One block of the inputs of some ranks.
fn inputs(place: &ChannelMember<'_>, ranks: impl Iterator<Item = u32>, block: u32) -> Vec<Operand> {
    ranks
        .map(|rank| of_rank(place, rank, BufferKind::Input, block))
        .collect()
}

fn reduce(pieces: Pieces, operands: &[Operand], destinations: &[Operand]) -> Vec<Step> {
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

/// All-reduce: everyone reduces all inputs. In place the inputs must be set aside before anyone overwrites its own, and
/// each turn needs its own exchange of signals, for the memory set aside is that of one window.
fn one_shot_in_place(place: &ChannelMember<'_>) -> ChannelLanes {
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
    // The last of the waits is where the reduction begins.
    if let (Some(last), Some(first)) = (waits.pop(), fold.first_mut()) {
        first.waits = last.waits;
    }
    body.extend(waits);
    body.extend(fold);
    give(&mut body, &peers);
    body.extend(wait(&peers));
    ChannelLanes::with_scratch(1, 1, vec![place.lane(body)])
}

/// Gives signals after the last step.
fn give(steps: &mut Vec<Step>, signals: &[ConnectionEnd]) {
    let (now, later) = signals.split_at(signals.len().min(Step::MOST_SIGNALS));
    if let Some(last) = steps.last_mut() {
        last.notifies = now.to_vec();
    }
    steps.extend(notify(later));
}

/// All-reduce: everyone reduces its piece of all inputs, and writes it into all outputs. In place this is right as well:
/// nobody else reads that piece of any input. Of all ways this moves the fewest bytes: each input is read once and each
/// output written once.
pub fn two_phase(place: &ChannelMember<'_>) -> ChannelLanes {
    let order = || [place.rank].into_iter().chain(place.others());
    let inputs = inputs(place, order(), 0);
    let outputs: Vec<Operand> = order()
        .map(|rank| of_rank(place, rank, BufferKind::Output, 0))
        .collect();
    let body = reduce(piece(place.rank), &inputs, &outputs);
    ChannelLanes::new(place.ranks(), vec![Touch::all(place).lane(place, body)])
}

/// Reduce: everyone reduces its piece of all inputs into the root's output, so that the root does not work alone. The
/// root's input comes first, for in place it is what results that are not whole yet overwrite.
fn reduce_by_all(place: &ChannelMember<'_>) -> ChannelLanes {
    let root = place.root();
    let others = (1..place.ranks()).map(|distance| (root + distance) % place.ranks());
    let inputs = inputs(place, [root].into_iter().chain(others), 0);
    let output = of_rank(place, root, BufferKind::Output, 0);
    let body = reduce(piece(place.rank), &inputs, &[output]);
    ChannelLanes::new(place.ranks(), vec![Touch::all(place).lane(place, body)])
}

/// Broadcast: everyone reads from the root, which has no copy of its own to make and writes one piece to all others.
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
        vec![Touch::both_ways(place).lane(place, body)],
    )
}
