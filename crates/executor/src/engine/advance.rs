//! Open groups: begins transfers when their peers are ready, and runs those that have begun.

use std::time::{Duration, Instant};

use program::Collective;
use shared_memory::Bell;

use super::{Engine, MOST_PREPARED, slot_bytes};
use crate::backend::{Backend, LaunchContext, Part};
use crate::error::{Error, Waiting};
use crate::open_group::{Entry, OpenGroup};
use crate::request::Request;
use crate::supervisor::Supervisor;

/// Between two looks whether the receiver of a first transfer has made its end.
const RETRY: Duration = Duration::from_micros(100);

impl<B: Backend> Engine<B> {
    /// What wakes this rank while it waits.
    pub fn bell(&self) -> Bell {
        let rank = self.own.bootstrap.rank();
        self.own.connections.bells[rank as usize].clone()
    }

    /// Runs transfers until one is done or `stop` returns `true`. Returns the numbers of those that
    /// are done.
    pub fn advance(
        &mut self,
        group: &mut OpenGroup<'_>,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<u64>, Error> {
        if self.failure.is_some() {
            return Err(self.broken());
        }
        let advanced = self.try_advance(group, stop);
        advanced.map_err(|error| self.fail(error))
    }

    fn try_advance(
        &mut self,
        group: &mut OpenGroup<'_>,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<u64>, Error> {
        loop {
            let waits = self.begin_ready(group)?;
            let retry = waits.then(|| Instant::now() + RETRY);
            let mut stopped = false;
            let mut pause = || {
                stopped = stopped || stop();
                stopped || retry.is_some_and(|at| Instant::now() >= at)
            };
            if group.entries.iter().any(|it| it.place.is_some()) {
                self.run_begun(group, &mut pause)?;
            } else if !pause() {
                self.look(group)?;
                std::thread::sleep(RETRY);
            }
            let done = self.take_done(group);
            if stopped || !done.is_empty() || group.is_empty() {
                return Ok(done);
            }
        }
    }

    /// Begins transfers whose turn it is. Returns whether the peer of one is not ready.
    fn begin_ready(&mut self, group: &mut OpenGroup<'_>) -> Result<bool, Error> {
        let mut waits = false;
        for at in 0..group.entries.len() {
            if group.entries[at].place.is_some() || !group.is_next(at) {
                continue;
            }
            let is_running = group.entries.iter().any(|it| it.place.is_some());
            let entry = &mut group.entries[at];
            if !self.is_ready(&entry.request, is_running)? {
                waits = true;
                continue;
            }
            let place = self.find(&entry.request)?;
            self.own.backend.begin(&mut Part {
                program: &mut self.prepared[place].program,
                memory: entry.memory.lend(),
                scratch: std::ptr::null_mut(),
                scalar: 0,
            });
            entry.place = Some(place);
        }
        Ok(waits)
    }

    /// Whether a transfer can be prepared without waiting for its peer, and without moving programs
    /// that run.
    fn is_ready(&mut self, request: &Request, is_running: bool) -> Result<bool, Error> {
        if self.index.contains_key(request) {
            return Ok(true);
        }
        if is_running && self.prepared.len() >= MOST_PREPARED {
            return Ok(false);
        }
        let choice = self.choice(request)?;
        let (bound, message) = self.bind(request, &choice)?;
        let own = &mut self.own;
        let slot_bytes = slot_bytes(&own.backend, &bound, &message);
        let bootstrap = own.bootstrap.as_mut();
        own.connections
            .is_offered(bootstrap, choice.protocol, slot_bytes, &bound)
    }

    fn run_begun(
        &mut self,
        group: &mut OpenGroup<'_>,
        pause: &mut dyn FnMut() -> bool,
    ) -> Result<(), Error> {
        let mut begun: Vec<(usize, &mut Entry<'_>)> = Vec::new();
        for entry in &mut group.entries {
            if let Some(place) = entry.place {
                begun.push((place, entry));
            }
        }
        // Each has its own program, so no place occurs twice.
        begun.sort_by_key(|(place, _)| *place);
        let ranks = self.own.bootstrap.ranks();
        let bytes = begun.iter().map(|(_, entry)| entry.request.bytes(ranks));
        let bytes = bytes.sum();
        let mut parts = Vec::with_capacity(begun.len());
        let mut programs = self.prepared.iter_mut().enumerate();
        for (place, entry) in begun {
            if let Some((_, prepared)) = programs.find(|(at, _)| *at == place) {
                parts.push(Part {
                    program: &mut prepared.program,
                    memory: entry.memory.lend(),
                    scratch: std::ptr::null_mut(),
                    scalar: 0,
                });
            }
        }
        let own = &mut self.own;
        let progress = own.connections.progress_of(bytes);
        let mut context = LaunchContext {
            connections: &mut own.connections,
            registered: &own.registered,
            launch: self.launches,
            // Transfers do not access buffers of peers.
            request: 0,
            spins: own.spins,
            supervisor: Supervisor {
                bootstrap: own.bootstrap.as_mut(),
                waiter: &own.waiter,
                collective: Collective::SendRecv,
                longest: own.longest,
                progress: progress.as_deref(),
            },
        };
        let ran = own.backend.run_some(&mut parts, &mut context, pause);
        if let Some(progress) = &progress {
            progress.finish();
        }
        ran
    }

    /// Takes the transfers that have ended.
    fn take_done(&self, group: &mut OpenGroup<'_>) -> Vec<u64> {
        let ended = |entry: &Entry<'_>| {
            let prepared = entry.place.map(|place| &self.prepared[place]);
            prepared.is_some_and(|it| self.own.backend.has_ended(&it.program))
        };
        let mut done = Vec::new();
        group.entries.retain(|entry| {
            let ended = ended(entry);
            if ended {
                done.push(entry.number);
            }
            !ended
        });
        done
    }

    /// Checks whether waiting for receivers that have not made their ends should continue.
    fn look(&mut self, group: &OpenGroup<'_>) -> Result<(), Error> {
        let Some(oldest) = group.entries.iter().min_by_key(|it| it.since) else {
            return Ok(());
        };
        let Request { root, to, .. } = oldest.request;
        let rank = self.own.bootstrap.rank();
        let waiting = match root == rank {
            true => Waiting::Slot { to, channel: 0 },
            false => Waiting::Data {
                from: root,
                channel: 0,
            },
        };
        let own = &mut self.own;
        let mut supervisor = Supervisor {
            bootstrap: own.bootstrap.as_mut(),
            waiter: &own.waiter,
            collective: Collective::SendRecv,
            longest: own.longest,
            progress: None,
        };
        supervisor.look(oldest.since, waiting)
    }
}
