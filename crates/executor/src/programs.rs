//! Proved programs, kept for further message sizes.

use std::sync::{Arc, Mutex, PoisonError};

use program::Collective;
use program::lower::{self, SendRecv};
use program::verify::{self, VerifiedProgram};
use program::{BoundProgram, Channels, MessageSize, Schedule, Transfer};
use rustc_hash::FxHashMap;

use crate::error::Error;
use crate::request::{Choice, Request};

/// Slots of FIFOs.
const FIFO_SLOTS: u32 = shared_memory::fifo::SLOTS as u32;

/// The inputs that programs depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ProgramKey {
    collective: Collective,
    schedule: Schedule,
    transfer: Transfer,
    root: u32,
    to: u32,
    in_place: bool,
    channels: u16,
}

impl ProgramKey {
    pub fn of(request: &Request, choice: &Choice) -> Self {
        Self {
            collective: request.collective,
            schedule: choice.schedule,
            transfer: choice.transfer,
            root: request.root,
            to: request.to,
            in_place: request.in_place,
            channels: choice.channels,
        }
    }
}

/// The programs of all ranks for one key.
#[derive(Debug)]
pub(crate) struct Proved {
    /// In rank order; ranks that take no part are missing.
    verified: Vec<VerifiedProgram>,
    collective: Collective,
}

impl Proved {
    /// The program of a rank, bound to a message.
    pub fn bind(&self, rank: u32, message: &MessageSize) -> Result<BoundProgram, Error> {
        let refused = |why: String| Error::Program {
            rank,
            collective: self.collective,
            why,
        };
        let own = self.verified.iter().find(|it| it.program().rank == rank);
        let own = own.ok_or_else(|| refused("there is none for this rank".to_owned()))?;
        own.bind(message)
            .map_err(|error| refused(error.to_string()))
    }
}

/// Programs by key; ranks that are threads share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Programs {
    known: Arc<Mutex<FxHashMap<ProgramKey, Arc<Proved>>>>,
}

impl Programs {
    /// The programs for a key, written and proved at the first call.
    pub fn get(&self, key: &ProgramKey, all: &Channels, rank: u32) -> Result<Arc<Proved>, Error> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(proved) = known.get(key) {
            return Ok(Arc::clone(proved));
        }
        let refused = |why: String| Error::Program {
            rank,
            collective: key.collective,
            why,
        };
        let channels = all.take(usize::from(key.channels));
        let programs = if key.collective == Collective::SendRecv {
            let numbers: Vec<u16> = (0..channels.count()).collect();
            lower::send_recv(&SendRecv {
                ranks: channels.ranks(),
                from: key.root,
                to: key.to,
                channels: &numbers,
                transfer: key.transfer,
                in_place: key.in_place,
            })
        } else {
            lower::lower(&lower::ProgramRequest {
                collective: key.collective,
                schedule: key.schedule,
                transfer: key.transfer,
                root: key.root,
                in_place: key.in_place,
                channels: &channels,
            })
        };
        let programs = programs.map_err(|error| Error::Unsupported {
            collective: key.collective,
            ranks: channels.ranks(),
            why: error.to_string(),
        })?;
        let verified =
            verify::verify(programs, FIFO_SLOTS).map_err(|error| refused(error.to_string()))?;
        let proved = Arc::new(Proved {
            verified,
            collective: key.collective,
        });
        known.insert(*key, Arc::clone(&proved));
        Ok(proved)
    }
}
