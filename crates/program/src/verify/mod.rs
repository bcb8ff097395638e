//! Proves programs correct before they run.
//!
//! [`verify`] runs the programs of all ranks with symbols instead of data, and refuses them unless
//!
//! - every block of every output has each contribution exactly once, with the operation's first
//!   part (the pre-multiplication) and last part (the division) applied once;
//! - no lane waits for ever, with FIFOs of a given number of slots or more;
//! - any two accesses to the same memory, of which one writes, are ordered by FIFO slots or
//!   signals;
//! - a peer's memory is accessed only between the beginning and the end of its launch, and inputs
//!   are written only as the output that they are in place.
//!
//! # Why a few turns are enough
//!
//! The message decides the number of turns. Within a body every connection is sent to as often as
//! it is received from, and before the turns no more is received than was sent; both are checked.
//! So no step waits for a step of a later turn, and after the signals sent ahead have been
//! consumed, each turn repeats the one before.
//!
//! A circular wait lies within one turn, so the first turn shows it. Two accesses that may race are
//! of the same turn or, in scratch memory, of two turns. If those of neighboring turns are ordered,
//! the order within the lane orders those further apart. Therefore it is enough to run 0, 1, 2 and
//! n + 3 turns, where n turns consume the signals sent ahead.
//!
//! The last turn may be shorter: some pieces are empty, and binding drops steps that move nothing,
//! at both ends of a FIFO. Pieces do not depend on each other, and fewer slots only remove waits.
//! They also remove the order that those slots gave, so where accesses could race, short last turns
//! are run too.

mod buffers;
mod clocks;
mod data;
mod ends;
mod error;
mod join;
mod limits;
mod memory;
mod network;
mod program_set;
mod run;
#[cfg(test)]
mod tests;
mod value;

pub use error::{Location, Phase, StepAt, VerifyError, VerifyFault};

use crate::{BindError, BoundProgram, MessageSize, Program};
use join::{Owners, join};
use program_set::ProgramSet;
use run::SymbolicRun;
use value::Sets;

/// A proved program of one rank. Only proved programs can be bound and launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedProgram {
    program: Program,
    fifo_slots: u32,
}

impl VerifiedProgram {
    /// The program.
    pub const fn program(&self) -> &Program {
        &self.program
    }

    /// The fewest slots that each FIFO must have.
    pub const fn fifo_slots(&self) -> u32 {
        self.fifo_slots
    }

    /// Binds the program to a message. The programs of one set fit together if all ranks bind them
    /// to equal messages.
    ///
    /// # Errors
    /// The message does not fit an address space, or a slot is too small for one element of each
    /// piece that it takes.
    pub fn bind(&self, message: &MessageSize) -> Result<BoundProgram, BindError> {
        self.program.bind(message)
    }
}

/// Proves the programs of all ranks (of a transfer: of its two ranks) for FIFOs of at least
/// `fifo_slots` slots.
///
/// The time grows with the number of steps of all ranks and channels; if a rank has several lanes
/// or peers' memory is accessed, also with the number of lanes.
///
/// # Errors
/// The first fault that is found, and where.
pub fn verify(
    programs: Vec<Program>,
    fifo_slots: u32,
) -> Result<Vec<VerifiedProgram>, Box<VerifyError>> {
    prove(&programs, fifo_slots, |steady| {
        vec![0, 1, 2, steady.saturating_add(3)]
    })?;
    let verified = |program| VerifiedProgram {
        program,
        fifo_slots,
    };
    Ok(programs.into_iter().map(verified).collect())
}

/// Runs the numbers of turns that `turns` returns. Its argument is the number of turns after which
/// turns repeat.
fn prove(
    programs: &[Program],
    fifo_slots: u32,
    turns: impl Fn(u32) -> Vec<u32>,
) -> Result<(), Box<VerifyError>> {
    let all = ProgramSet::new(programs)?;
    let Some(first) = programs.first() else {
        return Ok(());
    };
    let mut sets = Sets::new(first.ranks);
    let mut owners = Owners::default();
    let lanes = programs.iter().flat_map(|program| &program.lanes);
    if let Some(lane) = lanes
        .map(|lane| lane.channel)
        .find(|channel| *channel >= first.channels)
    {
        return Err(Box::new(VerifyError {
            at: Box::new(Location::of(first)),
            fault: VerifyFault::Limit(format!(
                "a lane works on the share of channel {lane}; expected channels below {}",
                first.channels
            )),
        }));
    }
    if !first.shares.is_empty() && first.shares.len() != usize::from(first.channels) {
        return Err(Box::new(VerifyError {
            at: Box::new(Location::of(first)),
            fault: VerifyFault::Limit(format!(
                "{} shares; expected one for each of the {} channels, or none",
                first.shares.len(),
                first.channels
            )),
        }));
    }
    for channel in 0..first.channels {
        let network = join(&all, channel, &mut owners)?;
        let steady = u32::try_from(network.turns_until_steady()).unwrap_or(u32::MAX);
        for turns in turns(steady) {
            SymbolicRun::new(&all, &network, turns, fifo_slots, &mut sets).run()?;
        }
        if network.shares_memory && !network.fifos.is_empty() {
            for filled in 1..first.pieces {
                for turns in [1, 2] {
                    let run = SymbolicRun::new(&all, &network, turns, fifo_slots, &mut sets);
                    run.with_last_turn(filled).run()?;
                }
            }
        }
    }
    Ok(())
}
