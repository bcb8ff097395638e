//! Memory of the rank's device that is registered, and the programs for it.

use program::{BoundProgram, MessageSize, Schedule};

use super::prepared::Table;
use super::{Engine, Parts};
use crate::backend::Backend;
use crate::error::Error;
use crate::programs::ProgramKey;
use crate::request::{Choice, Request};

impl<B: Backend> Engine<B> {
    /// The program of a request for registered buffers, whose whole share is one piece; `None` if
    /// nothing is registered, or the algorithm has none.
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

    /// Registers memory of the rank's device together with all other ranks.
    pub fn register(&mut self, memory: (u64, u64)) -> Result<u32, Error> {
        self.with_registrations(|own| {
            let (bootstrap, longest) = (own.bootstrap.as_mut(), own.longest);
            own.backend.register(memory, bootstrap, longest)
        })
    }

    /// Ends a window, once everything that was enqueued has ended.
    pub fn deregister(&mut self, window: u32) -> Result<(), Error> {
        self.with_registrations(|own| own.backend.deregister(window))
    }

    /// Changes what is registered. Programs that were prepared while nothing was know no registered
    /// buffers, and others have no use for them, so they are prepared again.
    fn with_registrations<T>(
        &mut self,
        change: impl FnOnce(&mut Parts<B>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.drain()?;
        self.withdrawing(|this| {
            let own = &mut this.own;
            let before = own.backend.registers();
            let changed = change(own);
            if own.backend.registers() != before {
                this.prepared = Table::new(own.backend.wires());
                this.last = None;
            }
            changed.map_err(|error| this.fail_unless_common(error))
        })
    }
}
