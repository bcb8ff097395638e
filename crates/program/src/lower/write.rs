//! Helpers that keep steps within the limits on operands.

use crate::{ConnectionEnd, Operand, Pieces, Step};

/// A step that reduces the sources and stores the result in every destination.
pub(super) fn step(
    pieces: Pieces,
    sources: impl IntoIterator<Item = Operand>,
    destinations: impl IntoIterator<Item = Operand>,
) -> Step {
    Step {
        waits: Vec::new(),
        pieces,
        sources: sources.into_iter().collect(),
        finish: false,
        destinations: destinations.into_iter().collect(),
        notifies: Vec::new(),
    }
}

/// As [`step`], and the result is final.
pub(super) fn last_step(
    pieces: Pieces,
    sources: impl IntoIterator<Item = Operand>,
    destinations: impl IntoIterator<Item = Operand>,
) -> Step {
    Step {
        finish: true,
        ..step(pieces, sources, destinations)
    }
}

/// A copy to destinations that fit one step.
pub(super) fn copy(
    pieces: Pieces,
    source: Operand,
    destinations: impl IntoIterator<Item = Operand>,
) -> Step {
    step(pieces, [source], destinations)
}

/// Copies from a source that can be read repeatedly to any number of destinations.
pub(super) fn spread(pieces: Pieces, source: Operand, destinations: &[Operand]) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut left = destinations;
    while !left.is_empty() {
        let (now, later) = left.split_at(fitting(left));
        steps.push(copy(pieces, source, now.iter().copied()));
        left = later;
    }
    steps
}

/// How many leading operands fit one side of a step.
fn fitting(operands: &[Operand]) -> usize {
    let mut fifos = 0;
    let fits = operands
        .iter()
        .take(Step::MOST_OPERANDS)
        .take_while(|operand| {
            fifos += usize::from(operand.is_fifo());
            fifos <= Step::MOST_FIFOS
        });
    fits.count()
}

/// A reduction of any number of operands, from left to right.
pub(super) struct Fold<'a> {
    pub pieces: Pieces,
    pub operands: &'a [Operand],
    /// Holds partial sums if the operands do not fit one step.
    pub accumulator: Operand,
    /// Get the result. If not all fit one step, the first must be readable.
    pub destinations: &'a [Operand],
    pub finish: bool,
    /// Whether all ranks split the steps after the same operands, so that all round alike.
    pub alike: bool,
}

impl Fold<'_> {
    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let mut left = self.operands;
        let mut first = true;
        loop {
            let mut sources: Vec<Operand> = Vec::with_capacity(Step::MOST_OPERANDS);
            if !first {
                sources.push(self.accumulator);
            }
            let room = Step::MOST_OPERANDS - sources.len();
            let mut takes = fitting(left).min(room);
            if self.alike && takes < left.len() {
                takes = takes.min(Step::MOST_FIFOS);
            }
            let (now, later) = left.split_at(takes);
            sources.extend(now);
            first = false;
            left = later;
            if left.is_empty() {
                self.end(sources, &mut steps);
                return steps;
            }
            steps.push(step(self.pieces, sources, [self.accumulator]));
        }
    }

    /// The step with the last operands, and the steps that spread its result further.
    fn end(&self, sources: Vec<Operand>, steps: &mut Vec<Step>) {
        let (now, later) = self.destinations.split_at(fitting(self.destinations));
        let mut end = step(self.pieces, sources, now.iter().copied());
        end.finish = self.finish;
        steps.push(end);
        if let Some(first) = now.first() {
            steps.extend(spread(self.pieces, *first, later));
        }
    }
}

/// Steps that only send signals.
pub(super) fn notify(signals: &[ConnectionEnd]) -> Vec<Step> {
    let chunks = signals.chunks(Step::MOST_SIGNALS);
    let steps = chunks.map(|chunk| Step {
        notifies: chunk.to_vec(),
        ..step(Pieces::one(0), [], [])
    });
    steps.collect()
}

/// Steps that only await signals.
pub(super) fn wait(signals: &[ConnectionEnd]) -> Vec<Step> {
    let chunks = signals.chunks(Step::MOST_SIGNALS);
    let steps = chunks.map(|chunk| Step {
        waits: chunk.to_vec(),
        ..step(Pieces::one(0), [], [])
    });
    steps.collect()
}
