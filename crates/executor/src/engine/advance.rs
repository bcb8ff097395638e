//! Open groups: begins calls when their peers are ready, and runs those that have begun.

use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

use program::Collective;
use shared_memory::Bell;

use super::{Engine, Prepared, slot_bytes};
use crate::backend::{Backend, LaunchContext, Part};
use crate::error::{Error, Waiting};
use crate::memory::Memory;
use crate::open_group::{Call, End, Ended, Entry, OpenGroup, State};
use crate::registered::Registered;
use crate::request::Request;
use crate::supervisor::Supervisor;

/// Between two looks whether peers have made their ends of new connections.
const RETRY: Duration = Duration::from_micros(100);

/// Between two looks whether waiting should continue.
const LOOK: Duration = Duration::from_millis(50);

impl<B: Backend> Engine<B> {
    /// What wakes this rank while it waits.
    pub fn bell(&self) -> Bell {
        let rank = self.own.bootstrap.rank();
        self.own.connections.bells[rank as usize].clone()
    }

    /// Whether a request can be run.
    ///
    /// # Errors
    /// As [`Self::choice`].
    pub fn expect_possible(&self, request: &Request) -> Result<(), Error> {
        match self.index.contains_key(request) {
            true => Ok(()),
            false => self.choice(request).map(|_| ()),
        }
    }

    /// Runs what was added until something has ended or `stop` returns `true`. Returns what has.
    pub fn advance(
        &mut self,
        group: &mut OpenGroup<'_>,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Ended>, Error> {
        if self.failure.is_some() {
            return Err(self.broken());
        }
        let advanced = self.try_advance(group, stop);
        self.keeps = !group.is_empty();
        advanced.map_err(|error| self.fail(error))
    }

    fn try_advance(
        &mut self,
        group: &mut OpenGroup<'_>,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Ended>, Error> {
        loop {
            let look_after = self.begin_ready(group)?;
            let until = look_after.map(|it| Instant::now() + it);
            let mut stopped = false;
            let mut pause = || {
                stopped = stopped || stop();
                stopped || until.is_some_and(|at| Instant::now() >= at)
            };
            if group.entries.iter().any(|it| it.has_begun()) {
                if self.run_begun(group, &mut pause)? {
                    group.since = Instant::now();
                }
            } else if !pause() {
                std::thread::sleep(RETRY);
            }
            self.take_messages(group);
            let done = self.take_done(group);
            if !done.is_empty() {
                group.since = Instant::now();
            }
            if stopped || !done.is_empty() || group.is_empty() {
                return Ok(done);
            }
            self.look(group)?;
            self.expect_sources(group)?;
        }
    }

    /// Begins what has its turn. Returns when to look again, if a peer is not ready or may leave.
    fn begin_ready(&mut self, group: &mut OpenGroup<'_>) -> Result<Option<Duration>, Error> {
        let own = self.own.bootstrap.rank();
        let mut look_after = None;
        for at in 0..group.entries.len() {
            let entry = &group.entries[at];
            if matches!(entry.state, State::Runs(_)) || !group.is_next(at) {
                continue;
            }
            let begins = match entry.call {
                Call::Transfer(End::To(peer) | End::From(peer)) => {
                    let request = entry.transfer(own, peer);
                    self.begin(group, at, &request)?
                }
                Call::Transfer(End::FromAny) => {
                    look_after = look_after.or(Some(LOOK));
                    self.listen(group, at)?;
                    true
                }
                Call::Collective(request) => self.begin(group, at, &request)?,
            };
            if !begins {
                look_after = Some(RETRY);
            }
        }
        Ok(look_after)
    }

    /// Begins a request. Returns `false` if a peer is not ready.
    fn begin(
        &mut self,
        group: &mut OpenGroup<'_>,
        at: usize,
        request: &Request,
    ) -> Result<bool, Error> {
        if !self.is_ready(request)? {
            return Ok(false);
        }
        self.keeps = group.entries.iter().any(Entry::has_begun);
        let place = self.find(request)?;
        let entry = &mut group.entries[at];
        if entry.call.is_collective() {
            self.launches += 1;
            self.prepared[place].publish(&self.own, self.launches, &entry.memory);
        }
        self.run_from_start(entry, place);
        Ok(true)
    }

    fn run_from_start(&mut self, entry: &mut Entry<'_>, place: usize) {
        let memory = entry.memory.lend();
        let part = part(&mut self.prepared[place], memory, &self.own.registered);
        self.own.backend.begin(&mut { part });
        entry.state = State::Runs(place);
    }

    /// Looks for messages of all ranks from which a receive may take one.
    fn listen(&mut self, group: &mut OpenGroup<'_>, at: usize) -> Result<(), Error> {
        let own = &self.own.bootstrap;
        let (rank, ranks) = (own.rank(), own.ranks());
        let sources = group.sources(at, rank, ranks);
        if let State::Listens(found, _) = &group.entries[at].state
            && found.iter().map(|(peer, _)| peer).eq(&sources)
        {
            return Ok(());
        }
        self.keeps = group.entries.iter().any(Entry::has_begun);
        let entry = &mut group.entries[at];
        let mut found = Vec::with_capacity(sources.len());
        for peer in sources {
            let place = self.find(&entry.transfer(rank, peer))?;
            self.own.backend.listen(&mut self.prepared[place].program);
            found.push((peer, place));
            self.keeps = true;
        }
        entry.state = State::Listens(found, None);
        Ok(())
    }

    /// Begins receives from any rank for which a message has come.
    fn take_messages(&mut self, group: &mut OpenGroup<'_>) {
        let ranks = self.own.bootstrap.ranks();
        let preferred = group.preferred;
        for entry in &mut group.entries {
            let State::Listens(sources, _) = &entry.state else {
                continue;
            };
            let has_message = |place: usize| {
                let program = &self.prepared[place].program;
                self.own.backend.has_ended(program)
            };
            let come = sources.iter().filter(|(_, place)| has_message(*place));
            let turn = |peer: u32| (peer + ranks - preferred) % ranks;
            if let Some((peer, place)) = come.min_by_key(|(peer, _)| turn(*peer)).copied() {
                group.preferred = (peer + 1) % ranks;
                entry.call = Call::Transfer(End::From(peer));
                self.run_from_start(entry, place);
            }
        }
    }

    /// Fails if all ranks have left from which a receive could take a message.
    fn expect_sources(&mut self, group: &mut OpenGroup<'_>) -> Result<(), Error> {
        let bootstrap = &mut self.own.bootstrap;
        for entry in &mut group.entries {
            let State::Listens(sources, gone) = &mut entry.state else {
                continue;
            };
            let failures = sources
                .iter()
                .map(|(peer, _)| bootstrap.failure(Some(*peer)));
            let failures: Option<Vec<_>> = failures.collect();
            let Some(failure) = failures.and_then(|all| all.into_iter().next()) else {
                continue;
            };
            // Messages that they sent before they left may have arrived since the last look.
            if gone.replace(failure.clone()).is_some() {
                let rank = bootstrap.rank();
                return Err(Error::Aborted { rank, failure });
            }
        }
        Ok(())
    }

    /// Whether a request can be prepared without waiting for its peers.
    fn is_ready(&mut self, request: &Request) -> Result<bool, Error> {
        if self.index.contains_key(request) {
            return Ok(true);
        }
        let choice = self.choice(request)?;
        let (bound, message) = self.bind(request, &choice)?;
        let own = &mut self.own;
        let slot_bytes = slot_bytes(&own.backend, &bound, &message);
        let bootstrap = own.bootstrap.as_mut();
        own.connections
            .can_wire(bootstrap, choice.protocol, slot_bytes, &bound)
    }

    /// Runs what has begun. Returns whether anything was moved.
    fn run_begun(
        &mut self,
        group: &mut OpenGroup<'_>,
        pause: &mut dyn FnMut() -> bool,
    ) -> Result<bool, Error> {
        let (since, ranks) = (group.since, self.own.bootstrap.ranks());
        let (mut bytes, mut collective) = (0, None);
        let mut begun: Vec<(usize, Memory<'_>)> = Vec::new();
        for entry in group.entries.iter_mut().filter(|it| it.has_begun()) {
            bytes += entry.bytes(ranks);
            match &entry.state {
                State::Waits => {}
                State::Listens(sources, _) => {
                    let nothing = || Memory::at(null(), 0, null_mut(), 0);
                    begun.extend(sources.iter().map(|(_, place)| (*place, nothing())));
                }
                State::Runs(place) => {
                    if let Call::Collective(request) = &entry.call {
                        collective = Some((request.collective, self.prepared[*place].request));
                    }
                    begun.push((*place, entry.memory.lend()));
                }
            }
        }
        // Each has its own program, so no place occurs twice.
        begun.sort_by_key(|(place, _)| *place);
        let own = &mut self.own;
        let mut parts = Vec::with_capacity(begun.len());
        let mut programs = self.prepared.iter_mut().enumerate();
        for (place, memory) in begun {
            if let Some((_, prepared)) = programs.find(|(at, _)| *at == place) {
                parts.push(part(prepared, memory, &own.registered));
            }
        }
        // Transfers do not access buffers of peers, so launch and request are the collective's.
        let (collective, request) = collective.unwrap_or((Collective::SendRecv, 0));
        let progress = own.connections.progress_of(bytes);
        let mut context = LaunchContext {
            connections: &mut own.connections,
            registered: &own.registered,
            launch: self.launches,
            request,
            spins: own.spins,
            supervisor: Supervisor {
                bootstrap: own.bootstrap.as_mut(),
                waiter: &own.waiter,
                collective,
                longest: own.longest,
                since: Some(since),
                progress: progress.as_deref(),
            },
        };
        let ran = own.backend.run_some(&mut parts, &mut context, pause);
        if let Some(progress) = &progress {
            progress.finish();
        }
        ran
    }

    /// Takes what has ended.
    fn take_done(&mut self, group: &mut OpenGroup<'_>) -> Vec<Ended> {
        let mut done = Vec::new();
        group.entries.retain(|entry| {
            let State::Runs(place) = &entry.state else {
                return true;
            };
            let prepared = &mut self.prepared[*place];
            let ended = self.own.backend.has_ended(&prepared.program);
            if ended {
                prepared.note_run(&self.own.waiter);
                let peer = match entry.call {
                    Call::Transfer(End::To(peer) | End::From(peer)) => Some(peer),
                    Call::Transfer(End::FromAny) | Call::Collective(_) => None,
                };
                let number = entry.number;
                done.push(Ended { number, peer });
            }
            !ended
        });
        done
    }

    /// Checks whether waiting should continue, after some time in which nothing was moved.
    fn look(&mut self, group: &mut OpenGroup<'_>) -> Result<(), Error> {
        let now = Instant::now();
        if now < group.since.max(group.looked) + LOOK {
            return Ok(());
        }
        group.looked = now;
        let next = (0..group.entries.len()).filter(|at| group.is_next(*at));
        for at in next {
            let (collective, waiting) = match group.entries[at].call {
                Call::Transfer(end) => (Collective::SendRecv, end.waiting()),
                Call::Collective(request) => (request.collective, Waiting::Others),
            };
            let own = &mut self.own;
            let mut supervisor = Supervisor {
                bootstrap: own.bootstrap.as_mut(),
                waiter: &own.waiter,
                collective,
                longest: own.longest,
                since: None,
                progress: None,
            };
            supervisor.look(group.since, waiting)?;
        }
        Ok(())
    }
}

impl End {
    /// The reason of a wait for the other end.
    const fn waiting(self) -> Waiting {
        match self {
            Self::To(to) => Waiting::Slot { to, channel: 0 },
            Self::From(from) => Waiting::Data { from, channel: 0 },
            Self::FromAny => Waiting::AnyMessage,
        }
    }
}

/// A program with its memory.
fn part<'a, P>(
    prepared: &'a mut Prepared<P>,
    memory: Memory<'a>,
    registered: &Registered,
) -> Part<'a, P> {
    Part {
        program: &mut prepared.program,
        memory,
        scratch: registered.scratch(),
        scalar: 0,
    }
}
