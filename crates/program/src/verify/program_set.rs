//! The programs of all ranks that are proved together.

use super::buffers::BlockCounts;
use super::error::{Location, VerifyError, VerifyFault};
use crate::{Collective, Program};

/// The programs of a communicator, and the blocks of each rank.
pub(super) struct ProgramSet<'a> {
    pub programs: &'a [Program],
    pub memory: Vec<BlockCounts>,
    /// Per rank, the index of its program.
    pub indices: Vec<Option<u32>>,
}

impl<'a> ProgramSet<'a> {
    /// Checks that the programs belong together.
    pub(super) fn new(programs: &'a [Program]) -> Result<Self, Box<VerifyError>> {
        let Some(first) = programs.first() else {
            return Ok(Self {
                programs,
                memory: Vec::new(),
                indices: Vec::new(),
            });
        };
        let apart = |program: &Program, problem: String| VerifyError {
            at: Box::new(Location::of(program)),
            fault: VerifyFault::Together(problem),
        };
        let mut indices = vec![None; first.ranks as usize];
        for (program, at) in programs.iter().zip(0..) {
            if frame(program, first.rank) != frame(first, first.rank) {
                let problem = format!(
                    "expected the same as rank {} has, but for lanes",
                    first.rank
                );
                return Err(Box::new(apart(program, problem)));
            }
            match indices.get_mut(program.rank as usize) {
                Some(place @ None) => *place = Some(at),
                Some(Some(_)) => {
                    return Err(Box::new(apart(
                        program,
                        "the rank has two programs".to_owned(),
                    )));
                }
                None => {
                    let problem = format!("expected ranks below {}", first.ranks);
                    return Err(Box::new(apart(program, problem)));
                }
            }
        }
        let transfer = first.collective == Collective::SendRecv;
        let expected = if transfer {
            programs.len().min(2)
        } else {
            indices.len()
        };
        if programs.len() != expected {
            let problem = format!("{} programs; expected {expected}", programs.len());
            return Err(Box::new(apart(first, problem)));
        }
        let receiver = programs.iter().find(|program| program.rank != first.root);
        let receiver = receiver.map_or(first.root, |program| program.rank);
        if transfer && indices.get(first.root as usize).is_none_or(Option::is_none) {
            let problem = format!("the program of the sender, rank {}, is missing", first.root);
            return Err(Box::new(apart(first, problem)));
        }
        Ok(Self {
            programs,
            memory: programs
                .iter()
                .map(|program| BlockCounts::of(program, receiver))
                .collect(),
            indices,
        })
    }

    /// The index of a rank's program; `None` if the rank takes no part.
    pub(super) fn index_of(&self, rank: u32) -> Option<u32> {
        self.indices.get(rank as usize).copied().flatten()
    }
}

/// The parts that all programs of a communicator have in common, with a given rank.
fn frame(program: &Program, rank: u32) -> Program {
    Program {
        rank,
        lanes: Vec::new(),
        shares: program.shares.clone(),
        ..*program
    }
}
