//! Joins steps that move the same bytes one after the other.
//!
//! Programs are written for four operands on a side; kernels take eight. A reduction of eight ranks
//! is three steps with a partial sum in memory, and its result is spread in two; joined, each input
//! is read once and each output written once. The order of the sources, and every rounding, stays.

use crate::layout::{FlatOperand, FlatStep, MOST_OPERANDS, OperandKind};

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

/// One step that does what both do; `None` if there is none.
fn join(first: &FlatStep, second: &FlatStep) -> Option<FlatStep> {
    let all = [first, second];
    let plain = all
        .iter()
        .all(|step| sources(step).iter().chain(destinations(step)).all(is_plain));
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
