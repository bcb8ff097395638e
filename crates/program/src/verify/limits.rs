//! The limits of a step.

use super::error::{VerifyFault, limits};
use crate::{Operand, Pieces, Program, Step};

/// Checks a step against the limits; `moves` if it may move data.
pub(super) fn check_limits(program: &Program, step: &Step, moves: bool) -> Result<(), VerifyFault> {
    let fifos = |operands: &[Operand]| operands.iter().filter(|operand| operand.is_fifo()).count();
    let (sources, destinations) = (&step.sources[..], &step.destinations[..]);
    let too_many = sources.len() > Step::MOST_OPERANDS
        || destinations.len() > Step::MOST_OPERANDS
        || fifos(sources) > Step::MOST_FIFOS
        || fifos(destinations) > Step::MOST_FIFOS
        || step.waits.len() > Step::MOST_SIGNALS
        || step.notifies.len() > Step::MOST_SIGNALS;
    let Pieces { first, count } = step.pieces;
    let problem = if too_many {
        format!(
            "{} sources, {} destinations, {} waits, {} notifies; {}",
            sources.len(),
            destinations.len(),
            step.waits.len(),
            step.notifies.len(),
            limits()
        )
    } else if !moves && step.operands().next().is_some() {
        "moves data outside of the turns; expected signals only".to_owned()
    } else if sources.is_empty() != destinations.is_empty() {
        "expected both sources and destinations, or neither".to_owned()
    } else if twice(sources) || twice(destinations) {
        "the same operand twice; expected different ones".to_owned()
    } else if twice(&step.waits) || twice(&step.notifies) {
        "the same signal twice; expected different ones".to_owned()
    } else if [sources, destinations].into_iter().any(mixed) {
        "a multicast beside another operand; expected it to be the only one of its side".to_owned()
    } else if count == 0 || u32::from(first) + u32::from(count) > program.pieces.into() {
        format!(
            "{count} pieces from piece {first}; expected at least one of the {} pieces of a window",
            program.pieces
        )
    } else if fifos(sources) + fifos(destinations) > 0 && count > program.fifo_pieces {
        format!(
            "{count} pieces through a FIFO; expected at most {}, as the program says",
            program.fifo_pieces
        )
    } else {
        return Ok(());
    };
    Err(VerifyFault::Limit(problem))
}

/// Whether a multicast is beside another operand.
fn mixed(operands: &[Operand]) -> bool {
    let multicast = |operand: &Operand| matches!(operand, Operand::Multicast { .. });
    operands.len() > 1 && operands.iter().any(multicast)
}

/// Whether an item occurs twice. The lists are short.
fn twice<T: PartialEq>(things: &[T]) -> bool {
    let mut rest = things;
    while let Some((first, others)) = rest.split_first() {
        if others.contains(first) {
            return true;
        }
        rest = others;
    }
    false
}
