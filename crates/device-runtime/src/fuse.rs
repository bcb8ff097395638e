//! Joins steps that move the same bytes one after the other, or only wait or signal.
//!
//! Programs are written for four operands on a side; kernels take eight. A reduction of eight ranks
//! is three steps with a partial sum in memory, and its result is spread in two; joined, each input
//! is read once and each output written once. The order of the sources, and every rounding, stays.
//!
//! Programs are written for four signals, too; kernels take 32. A step waits before it moves data
//! and signals after it, so a step that only waits joins the next one, and one that only signals
//! the last one. A wait behind a signal stays apart: the peer may need the one to send the other.

use crate::layout::{FlatOperand, FlatStep, MOST_OPERANDS, MOST_SIGNALS, OperandKind};

/// Whether a step loads from all ranks or stores to all, in [`FlatStep::multicast`].
const MULTICAST: u8 = 1 | 2;

/// Joins steps where that changes only which bytes are read and written again.
pub fn fuse(steps: Vec<FlatStep>) -> Vec<FlatStep> {
    let mut fused: Vec<FlatStep> = Vec::with_capacity(steps.len());
    for step in steps {
        match fused.last().and_then(|last| join(last, &step)) {
            Some(joined) => {
                if let Some(last) = fused.last_mut() {
                    *last = joined;
                }
            }
            None => fused.push(step),
        }
    }
    fused
}

fn sources(step: &FlatStep) -> &[FlatOperand] {
    &step.operands[..usize::from(step.source_count)]
}

fn destinations(step: &FlatStep) -> &[FlatOperand] {
    &step.operands[MOST_OPERANDS..][..usize::from(step.destination_count)]
}

/// Whether an operand is memory that has no state besides its bytes.
const fn is_plain(operand: &FlatOperand) -> bool {
    operand.kind == OperandKind::Local as u32 || operand.kind == OperandKind::Peer as u32
}

fn waits(step: &FlatStep) -> &[u32] {
    &step.waits[..usize::from(step.wait_count)]
}

fn notifies(step: &FlatStep) -> &[u32] {
    &step.notifies[..usize::from(step.notify_count)]
}

/// One step that does what both do; `None` if there is none.
fn join(first: &FlatStep, second: &FlatStep) -> Option<FlatStep> {
    signals(first, second).or_else(|| moves(first, second))
}

/// The first step only waits, or the second only signals.
fn signals(first: &FlatStep, second: &FlatStep) -> Option<FlatStep> {
    let only_waits = first.bytes == 0 && first.notify_count == 0;
    let only_signals = second.bytes == 0 && second.wait_count == 0;
    if only_signals {
        let mut joined = *first;
        joined.notifies = both(notifies(first), notifies(second))?;
        joined.notify_count += second.notify_count;
        return has_room(&joined).then_some(joined);
    }
    // With two addresses of one memory, a step between two others keeps them apart
    // (`kernels/protocol_multicast.cuh`).
    if only_waits && (second.bytes == 0 || second.multicast == 0) {
        let mut joined = *second;
        joined.waits = both(waits(first), waits(second))?;
        joined.wait_count += first.wait_count;
        return has_room(&joined).then_some(joined);
    }
    None
}

/// The signals of two steps; `None` if they are too many, or if one is in both: a step counts each
/// of its signals once.
fn both(first: &[u32], second: &[u32]) -> Option<[u32; MOST_SIGNALS]> {
    let before = first.len();
    let fits = before + second.len() <= MOST_SIGNALS;
    if !fits || second.iter().any(|signal| first.contains(signal)) {
        return None;
    }
    let mut joined = [0; MOST_SIGNALS];
    joined[..before].copy_from_slice(first);
    joined[before..before + second.len()].copy_from_slice(second);
    Some(joined)
}

/// Whether a thread is left for each signal beside the FIFOs.
fn has_room(step: &FlatStep) -> bool {
    let mut all = sources(step).iter().chain(destinations(step));
    let most = MOST_SIGNALS - 2 * MOST_OPERANDS;
    let few = usize::from(step.wait_count.max(step.notify_count)) <= most;
    few || !all.any(|operand| operand.kind == OperandKind::Fifo as u32)
}

/// Both steps move data.
fn moves(first: &FlatStep, second: &FlatStep) -> Option<FlatStep> {
    let all = [first, second];
    let plain = all.iter().all(|step| {
        step.multicast & MULTICAST == 0
            && sources(step).iter().chain(destinations(step)).all(is_plain)
    });
    let moves = first.bytes == second.bytes && first.bytes > 0;
    // What a peer is told between them, or tells, orders them.
    let between = first.notify_count > 0 || second.wait_count > 0;
    if !plain || !moves || between {
        return None;
    }
    let joined = accumulated(first, second).or_else(|| spread(first, second))?;
    Some(FlatStep {
        reaches: first.reaches | second.reaches,
        wait_count: first.wait_count,
        waits: first.waits,
        notify_count: second.notify_count,
        notifies: second.notifies,
        ..joined
    })
}

/// The first step leaves a partial sum, the second adds to it and replaces it.
fn accumulated(first: &FlatStep, second: &FlatStep) -> Option<FlatStep> {
    let [sum] = destinations(first) else {
        return None;
    };
    let (head, rest) = sources(second).split_first()?;
    let replaced = head == sum && destinations(second).contains(sum) && !rest.contains(sum);
    let before = sources(first).len();
    let fits = before + rest.len() <= MOST_OPERANDS;
    if !replaced || !fits || first.finish != 0 || second.pre_multiply & 1 != 0 {
        return None;
    }
    let mut joined = *second;
    joined.operands[..before].copy_from_slice(sources(first));
    joined.operands[before..before + rest.len()].copy_from_slice(rest);
    joined.source_count = u8::try_from(before + rest.len()).ok()?;
    joined.pre_multiply = first.pre_multiply | second.pre_multiply >> 1 << before;
    Some(joined)
}

/// The second step copies the first one's result, or its only source, to more destinations.
fn spread(first: &FlatStep, second: &FlatStep) -> Option<FlatStep> {
    let [source] = sources(second) else {
        return None;
    };
    let changes = second.finish != 0 || second.pre_multiply != 0;
    let of_result = destinations(first).contains(source) && !changes;
    let unchanged = first.finish == 0 && first.pre_multiply == 0;
    let of_source = sources(first) == [*source] && unchanged && !changes;
    let before = destinations(first).len();
    let more = destinations(second);
    if !(of_result || of_source) || before + more.len() > MOST_OPERANDS {
        return None;
    }
    let mut joined = *first;
    joined.operands[MOST_OPERANDS + before..][..more.len()].copy_from_slice(more);
    joined.destination_count = u8::try_from(before + more.len()).ok()?;
    Some(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operand(kind: OperandKind, offset: u64) -> FlatOperand {
        FlatOperand {
            kind: kind as u32,
            offset,
            ..FlatOperand::default()
        }
    }

    fn local(offset: u64) -> FlatOperand {
        operand(OperandKind::Local, offset)
    }

    fn peer(offset: u64) -> FlatOperand {
        operand(OperandKind::Peer, offset)
    }

    fn step(sources: &[FlatOperand], destinations: &[FlatOperand]) -> FlatStep {
        let mut step = FlatStep {
            bytes: 64,
            source_count: sources.len() as u8,
            destination_count: destinations.len() as u8,
            ..FlatStep::default()
        };
        step.operands[..sources.len()].copy_from_slice(sources);
        step.operands[MOST_OPERANDS..][..destinations.len()].copy_from_slice(destinations);
        step
    }

    /// A two-phase all-reduce of eight ranks is one step.
    #[test]
    fn eight_operands_are_moved_at_once() {
        let inputs: Vec<FlatOperand> = (1..9).map(peer).collect();
        let (own, others) = (local(0), (11..18).map(peer).collect::<Vec<_>>());
        let with_sum = |rest: &[FlatOperand]| [&[own], rest].concat();
        let mut ends = step(&with_sum(&inputs[7..]), &with_sum(&others[..3]));
        ends.finish = 1;
        let steps = vec![
            step(&inputs[..4], &[own]),
            step(&with_sum(&inputs[4..7]), &[own]),
            ends,
            step(&[own], &others[3..]),
        ];
        let mut expected = step(&inputs, &with_sum(&others));
        expected.finish = 1;
        assert_eq!(fuse(steps), [expected]);
    }

    #[test]
    fn more_operands_stay_several_steps() {
        let inputs: Vec<FlatOperand> = (1..10).map(peer).collect();
        let own = local(0);
        let steps = vec![
            step(&inputs[..4], &[own]),
            step(&[own, inputs[4], inputs[5], inputs[6]], &[own]),
            step(&[own, inputs[7], inputs[8]], &[own]),
        ];
        let fused = fuse(steps.clone());
        assert_eq!(fused, [step(&inputs[..7], &[own]), steps[2]]);
    }

    #[test]
    fn what_lies_between_keeps_steps_apart() {
        let own = local(0);
        let first = step(&[peer(1), peer(2)], &[own]);
        let second = step(&[own], &[peer(3)]);
        let mut told = first;
        told.notify_count = 1;
        let mut waits = second;
        waits.wait_count = 1;
        let mut longer = second;
        longer.bytes += 1;
        let fifo = step(&[own], &[operand(OperandKind::Fifo, 0)]);
        let elsewhere = step(&[local(5)], &[peer(3)]);
        let mut divides = second;
        divides.finish = 1;
        for (first, second) in [
            (told, second),
            (first, waits),
            (first, longer),
            (first, fifo),
            (first, elsewhere),
            (first, divides),
        ] {
            assert_eq!(fuse(vec![first, second]), [first, second]);
        }
        assert_eq!(fuse(vec![first, second]).len(), 1);
    }

    /// A step with these signals, and data if `bytes` is not 0.
    fn signaling(bytes: u64, waits: &[u32], notifies: &[u32]) -> FlatStep {
        let mut step = match bytes {
            0 => FlatStep::default(),
            _ => step(&[local(0)], &[peer(1)]),
        };
        step.bytes = bytes;
        step.wait_count = waits.len() as u8;
        step.waits[..waits.len()].copy_from_slice(waits);
        step.notify_count = notifies.len() as u8;
        step.notifies[..notifies.len()].copy_from_slice(notifies);
        step
    }

    /// The nine steps of a direct all-reduce of eight ranks are three.
    #[test]
    fn signals_are_sent_and_awaited_at_once() {
        let steps = [
            signaling(0, &[], &[1, 2, 3, 4]),
            signaling(0, &[], &[5, 6, 7]),
            signaling(0, &[11, 12, 13, 14], &[]),
            signaling(0, &[15, 16, 17], &[]),
            signaling(64, &[], &[]),
            signaling(0, &[], &[1, 2, 3, 4]),
            signaling(0, &[], &[5, 6, 7]),
            signaling(0, &[11, 12, 13, 14], &[]),
            signaling(0, &[15, 16, 17], &[]),
        ];
        let (given, awaited) = ([1, 2, 3, 4, 5, 6, 7], [11, 12, 13, 14, 15, 16, 17]);
        let expected = [
            signaling(0, &[], &given),
            signaling(64, &awaited, &given),
            signaling(0, &awaited, &[]),
        ];
        assert_eq!(fuse(steps.to_vec()), expected);
    }

    #[test]
    fn signals_stay_apart_where_one_step_cannot_have_them() {
        let many: Vec<u32> = (1..=20).collect();
        let later: Vec<u32> = (21..=40).collect();
        let mut fifo = signaling(64, &[], &[]);
        fifo.operands[0] = operand(OperandKind::Fifo, 0);
        let mut multicast = signaling(64, &[], &[]);
        multicast.multicast = 4;
        for (first, second) in [
            // The same signal twice.
            (signaling(0, &[1], &[]), signaling(0, &[1], &[])),
            (signaling(0, &[], &[1]), signaling(0, &[], &[1])),
            // More than a step has.
            (signaling(0, &many, &[]), signaling(0, &later, &[])),
            // A wait behind a signal.
            (signaling(0, &[], &[1]), signaling(0, &[2], &[])),
            // FIFOs leave room for fewer.
            (signaling(0, &many, &[]), fifo),
            (signaling(0, &[1], &[]), multicast),
        ] {
            assert_eq!(fuse(vec![first, second]), [first, second]);
        }
        fifo.wait_count = 1;
        fifo.waits[0] = 1;
        let alone = FlatStep {
            wait_count: 0,
            waits: [0; MOST_SIGNALS],
            ..fifo
        };
        assert_eq!(fuse(vec![signaling(0, &[1], &[]), alone]), [fifo]);
    }

    /// A sum that is read again later is stored.
    #[test]
    fn a_partial_sum_that_stays_is_not_joined() {
        let (sum, other) = (local(0), local(64));
        let steps = vec![
            step(&[peer(1), peer(2)], &[sum]),
            step(&[sum, peer(3)], &[other]),
        ];
        assert_eq!(fuse(steps.clone()), steps);
    }
}
