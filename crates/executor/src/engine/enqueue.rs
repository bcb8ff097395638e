//! Launches in the order of a device's stream: they are enqueued, and looked after until they end.

use std::time::Duration;

use program::Collective;

use super::{Engine, Run};
use crate::backend::{Backend, InFlight};
use crate::error::Error;
use crate::memory::Memory;
use crate::request::Request;
use crate::supervisor::LOOK;

/// Between two looks while this rank waits until what was enqueued has ended.
const NAP: Duration = Duration::from_micros(50);

impl<B: Backend> Engine<B> {
    /// Enqueues a collective behind the work of a stream. The first of its kind and size is
    /// prepared before, once all that was enqueued has ended: its connections and its memory change
    /// then. Returns what was not seen to have ended.
    pub fn enqueue(
        &mut self,
        request: &Request,
        memory: Memory<'_>,
        scalar: u64,
        stream: u64,
    ) -> Result<InFlight, Error> {
        self.withdrawing(|own| own.try_enqueue(request, memory, (scalar, stream)))
    }

    fn try_enqueue(
        &mut self,
        request: &Request,
        memory: Memory<'_>,
        (scalar, stream): (u64, u64),
    ) -> Result<InFlight, Error> {
        if self.failure.is_none() && self.prepared.find(request).is_none() {
            self.drain()?;
        }
        let at = self.place(request, &memory)?;
        self.note_launch(at, &memory);
        let enqueued = self.with_part(at, (memory, scalar), None, |backend, it| {
            let (part, context) = it;
            backend.enqueue(&mut part[0], stream, context)
        });
        let enqueued = enqueued.map_err(|error| self.fail_unless_common(error));
        self.prepared.get(at).note_run(&self.own.waiter);
        enqueued
    }

    /// Looks after what was enqueued, for all ranks that wait for it. Returns what has not ended.
    pub fn look_after(&mut self) -> Result<InFlight, Error> {
        if self.failure.is_some() {
            return Err(self.broken());
        }
        let own = &mut self.own;
        let collective = self
            .last
            .map_or(Collective::AllReduce, |(last, _)| last.collective);
        let (backend, mut context) = own.lend(Run {
            launch: (self.launches, 0),
            collective,
            comparison: Some(self.known.launch(collective)),
            longest: own.longest,
            since: None,
            nap: LOOK,
            spins: 0,
            progress: None,
        });
        let looked = backend.look_after(&mut context);
        looked.map_err(|error| self.fail(error))
    }

    /// Waits until what was enqueued has ended.
    pub fn drain(&mut self) -> Result<(), Error> {
        while self.look_after()?.launches > 0 {
            std::thread::sleep(NAP);
        }
        Ok(())
    }

    /// Tells what was enqueued to end early. Returns what has not ended yet.
    pub fn end_early(&mut self) -> InFlight {
        self.own.backend.end_early()
    }
}
