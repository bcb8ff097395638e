//! Memory of the rank's device that is registered, and the programs for it.

use program::{BoundProgram, MessageSize, Schedule};

use super::Engine;
use super::prepared::Table;
use crate::backend::Backend;
use crate::error::Error;
use crate::programs::ProgramKey;
use crate::request::{Choice, Request};

impl<B: Backend> Engine<B> {
    /// The program of a request for registered buffers, whose whole share is one piece; `None` if
    /// the backend runs none.
    pub(super) fn bind_registered(
        &self,
        request: &Request,
        choice: &Choice,
    ) -> Result<Option<BoundProgram>, Error> {
        let own = &self.own;
        let rank = own.bootstrap.rank();
        if choice.schedule != Schedule::Nvls || !own.backend.registers() {
            return Ok(None);
        }
        let key = ProgramKey::of(request, choice).registered();
        let programs = own.programs.get(&key, &own.channels, rank)?;
        let message = MessageSize {
            count: request.count,
            element_bytes: request.element.bytes(),
            slot_bytes: own.backend.slot_bytes().of(choice.protocol),
            piece_bytes: 0,
        };
        Ok(Some(programs.bind(rank, &message)?.with_tag(request.tag)))
    }

    /// Registers memory of the rank's device together with all other ranks. Programs that were
    /// prepared before the first time know no registered buffers, and are prepared again.
    pub fn register(&mut self, memory: (u64, u64)) -> Result<u32, Error> {
        if self.failure.is_some() {
            return Err(self.broken());
        }
        self.drain()?;
        let own = &mut self.own;
        let knew = own.backend.registers();
        let (bootstrap, longest) = (own.bootstrap.as_mut(), own.longest);
        let registered = own.backend.register(memory, bootstrap, longest);
        if own.backend.registers() && !knew {
            self.prepared = Table::new(own.backend.wires());
            self.last = None;
        }
        registered.map_err(|error| self.fail_unless_common(error))
    }

    /// Ends a window, once everything that was enqueued has ended.
    pub fn deregister(&mut self, window: u32) -> Result<(), Error> {
        self.drain()?;
        self.own.backend.deregister(window)
    }
}
