//! Proof, before anything runs, that programs do what they should.
//!
//! [`verify`] runs the programs of all ranks with symbols in place of data, and refuses them unless
//!
//! - every block of every output ends as it must: exactly the contributions that belong there, each once, with the
//!   operation's first part (the pre-multiplication) and last part (the division) applied once;
//! - nobody waits for ever, over all lanes, with FIFOs of a given number of slots, or of more;
//! - any two accesses to the same memory, of which one writes, are ordered by FIFO slots or signals;
//! - a peer's memory is touched only between the beginning and the end of its launch, and inputs are never written, unless
//!   as the output that they are in place.
//!
//! # Why a few turns are enough
//!
//! How many turns there are depends on the message. Within a body every connection carries as much as is taken from it,
//! and before the turns no more is taken than was given; both are checked. So no step waits for a step of a later turn,
//! and when signals given ahead have been taken, each turn is like the one before it. A circular wait would lie within one
//! turn, for every way round it leads back to where it began; it shows in the first turn. Two accesses that may
//! meet are of the same turn, or, in scratch memory, of two: if those of neighbouring turns are ordered, the order
//! within the lane orders those further apart. So no turn, one, two, and as many as signals are given ahead, plus three,
//! stand for any number.
//!
//! A last turn is shorter: some of its pieces may be empty, and binding leaves out the steps that move nothing, at both
//! ends of a FIFO. Pieces do not depend on each other for their data, and with fewer slots only waits disappear. What
//! also disappears is the order that empty slots gave; where accesses could meet, such turns are run too.

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

/// The program of one rank, of a set that was proved. Only such programs can be bound and launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedProgram {
    program: Program,
    fifo_slots: u32,
}

impl VerifiedProgram {
    /// What was proved.
    pub const fn program(&self) -> &Program {
        &self.program
    }

    /// Slots that each FIFO must have at least.
    pub const fn fifo_slots(&self) -> u32 {
        self.fifo_slots
    }

    /// Binds the program to a message. Ranks that bind the programs of one set to equal messages get programs that fit
    /// together.
    ///
    /// # Errors
    /// The message does not fit an address space, or a slot is too small for one element of each piece that it takes.
    pub fn bind(&self, message: &MessageSize) -> Result<BoundProgram, BindError> {
        self.program.bind(message)
    }
}

/// Proves the programs of all ranks of a communicator (of a transfer: of its two ranks) for FIFOs of at least `fifo_slots`
/// slots.
///
/// The work grows with the number of steps over all ranks and channels; where lanes of a rank run concurrently or peers'
/// memory is touched, also with the number of lanes.
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

/// `turns` says which numbers of turns are run, given after how many each is like the one before.
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
