//! Emulates multicast by steps over the peers' memory.

use std::borrow::Cow;

use super::bound::{BoundOperand, BoundProgram, BoundStep};
use super::step::Step;

impl BoundProgram {
    /// The same program with reads and writes of the peers' memory instead of multicast.
    ///
    /// Returns programs without multicast unchanged.
    pub fn without_multicast(&self, rank: u32, ranks: u32) -> Cow<'_, Self> {
        if !self.multicasts {
            return Cow::Borrowed(self);
        }
        let mut own = self.clone();
        own.multicasts = false;
        let peers: Vec<u32> = (1..ranks)
            .map(|distance| (rank + distance) % ranks)
            .collect();
        let places: Vec<u16> = peers
            .iter()
            .map(|peer| super::bind::place(&mut own.peers, *peer))
            .collect();
        for lane in &mut own.lanes {
            for part in [
                &mut lane.prologue,
                &mut lane.body,
                &mut lane.last,
                &mut lane.epilogue,
            ] {
                *part = part.iter().flat_map(|it| expand(it, &places)).collect();
            }
        }
        Cow::Owned(own)
    }
}

impl BoundStep {
    /// Whether the step has a multicast operand.
    pub fn multicasts(&self) -> bool {
        let operands = self.sources.iter().chain(&self.destinations);
        operands
            .into_iter()
            .any(|operand| matches!(operand, BoundOperand::Multicast { .. }))
    }
}

/// One operand per rank, the own rank's first.
fn everywhere(operand: BoundOperand, peers: &[u16]) -> Vec<BoundOperand> {
    let BoundOperand::Multicast {
        buffer,
        offset,
        stride,
    } = operand
    else {
        return vec![operand];
    };
    let own = BoundOperand::Local {
        buffer,
        offset,
        stride,
    };
    let theirs = peers.iter().map(|peer| BoundOperand::Peer {
        peer: *peer,
        buffer,
        offset,
        stride,
    });
    std::iter::once(own).chain(theirs).collect()
}

fn expand(step: &BoundStep, peers: &[u16]) -> Vec<BoundStep> {
    if !step.multicasts() {
        return vec![*step];
    }
    // A multicast is the only operand of its side.
    let sources = everywhere(step.sources[0], peers);
    let destinations = everywhere(step.destinations[0], peers);
    let sum = destinations[0];
    let mut steps = Vec::new();
    let mut moves = |sources: &[BoundOperand], destinations: &[BoundOperand]| {
        steps.push(BoundStep {
            sources: array(sources),
            source_count: sources.len() as u8,
            destinations: array(destinations),
            destination_count: destinations.len() as u8,
            finish: false,
            wait_count: 0,
            notify_count: 0,
            ..*step
        });
    };
    // Partial sums are kept in this rank's own destination.
    let (first, rest) = sources.split_at(sources.len().min(Step::MOST_OPERANDS));
    moves(first, &[sum]);
    for chunk in rest.chunks(Step::MOST_OPERANDS - 1) {
        let with_sum: Vec<BoundOperand> =
            std::iter::once(sum).chain(chunk.iter().copied()).collect();
        moves(&with_sum, &[sum]);
    }
    let reduced = steps.len();
    let mut moves = |destinations: &[BoundOperand]| {
        steps.push(BoundStep {
            sources: array(&[sum]),
            source_count: 1,
            destinations: array(destinations),
            destination_count: destinations.len() as u8,
            finish: false,
            wait_count: 0,
            notify_count: 0,
            ..*step
        });
    };
    destinations[1..]
        .chunks(Step::MOST_OPERANDS)
        .for_each(&mut moves);
    steps[reduced - 1].finish = step.finish;
    steps[0].wait_count = step.wait_count;
    if let Some(last) = steps.last_mut() {
        last.notify_count = step.notify_count;
    }
    steps
}

fn array(operands: &[BoundOperand]) -> [BoundOperand; Step::MOST_OPERANDS] {
    let mut array = [BoundOperand::None; Step::MOST_OPERANDS];
    for (to, operand) in array.iter_mut().zip(operands) {
        *to = *operand;
    }
    array
}
