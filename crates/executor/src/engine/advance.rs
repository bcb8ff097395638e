//! Open groups: begins calls when their peers are ready, and runs those that have begun.

use std::time::{Duration, Instant};

use program::Collective;
use shared_memory::Bell;

use super::any_rank::can_hear;
use super::{Engine, Parts, Run, part, slot_bytes};
use crate::backend::Backend;
use crate::error::{Error, Waiting};
use crate::memory::Memory;
use crate::open_group::{Call, End, Ended, Entry, OpenGroup, State};
use crate::request::Request;
use crate::supervisor::{LOOK, Supervisor};

/// Between the first two looks whether peers have made their ends of new connections.
const RETRY: Duration = Duration::from_micros(100);

/// Polls between two looks at the clock, as long as a rank polls without a pause.
const POLLS: u32 = 16;

/// Longest time between two looks for ends. A receive may wait for its first message for hours.
const MOST_RETRY: Duration = Duration::from_millis(5);

/// The time to the next look, after a look in vain.
fn next_retry(retry: Duration) -> Duration {
    MOST_RETRY.min(retry + retry / 4)
}

impl<B: Backend> Engine<B> {
    /// What wakes this rank while it waits.
    pub fn bell(&self) -> Bell {
        let rank = self.own.bootstrap.rank();
        self.own.connections.bells[rank as usize].clone()
    }

    /// Whether a request can be run.
    ///
    /// # Errors
    /// As [`Self::choice`]; or the message is too long.
    pub fn expect_possible(&mut self, request: &Request) -> Result<(), Error> {
        match self.prepared.find(request) {
            Some(_) => Ok(()),
            None => {
                let choice = self.choice(request)?;
                self.bind(request, &choice).map(|_| ())
            }
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
        let advanced = self.withdrawing(|own| own.try_advance(group, stop));
        advanced.map_err(|error| self.fail(error))
    }

    fn try_advance(
        &mut self,
        group: &mut OpenGroup<'_>,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Ended>, Error> {
        loop {
            let retry = self.begin_ready(group)?;
            let spins = self.own.spins;
            let (mut until, mut polls, mut stopped) = (None, 0_u32, false);
            let mut pause = || {
                stopped = stopped || stop();
                polls += 1;
                // What ends soon needs no clock, and reading it takes longer than a poll.
                if stopped || polls < spins && !polls.is_multiple_of(POLLS) {
                    return stopped;
                }
                let now = Instant::now();
                now >= *until.get_or_insert(now + retry.unwrap_or(LOOK))
            };
            let has_begun = group.entries.iter().any(Entry::has_begun);
            if has_begun {
                let nap = retry.map_or(LOOK, |it| it.max(10 * RETRY));
                group.unmet = self.run_begun(group, nap, &mut pause)?;
            } else {
                let poll = || pause() || self.has_new_tag(group);
                let waiter = &self.own.waiter;
                waiter.sleep_unless(poll, retry.unwrap_or(RETRY));
                if self.has_new_tag(group) {
                    group.retry = None;
                }
            }
            self.take_messages(group);
            let done = self.take_done(group)?;
            if !done.is_empty() || group.unmet.is_none() && has_begun {
                group.moved();
            }
            if stopped || !done.is_empty() || group.is_empty() {
                return Ok(done);
            }
            self.look(group)?;
        }
    }

    /// Whether a sender has given a connection to the tag of a receive that waits for one.
    fn has_new_tag(&self, group: &OpenGroup<'_>) -> bool {
        let (own, ranks) = (self.rank(), self.own.bootstrap.ranks());
        let is_new = |at: usize, peer: u32, tag| {
            let known = &group.entries[at].connections;
            let is_known = known.iter().any(|(it, _)| *it == peer);
            !is_known && self.own.connections.is_sent(peer, tag) && group.is_next(at)
        };
        (0..group.entries.len()).any(|at| match group.entries[at] {
            Entry {
                state: State::Refused,
                call: Call::Transfer(end, tag),
                ..
            } => match end {
                End::From(peer) => is_new(at, peer, tag),
                End::FromAny => {
                    let mut sources = group.sources(at, own, ranks).into_iter();
                    sources.any(|peer| is_new(at, peer, tag))
                }
                End::To(_) => false,
            },
            _ => false,
        })
    }

    /// Begins what has its turn. Returns when to look again for peers that are not ready.
    fn begin_ready(&mut self, group: &mut OpenGroup<'_>) -> Result<Option<Duration>, Error> {
        let ranks = self.own.bootstrap.ranks() as usize;
        let is_due = group.retry.is_none_or(|(_, at)| Instant::now() >= at);
        let (mut waits, mut is_new) = (false, false);
        for at in 0..group.entries.len() {
            match &group.entries[at].state {
                State::Runs(_) => continue,
                State::Listens(sources) if sources.len() + 1 == ranks => continue,
                State::Listens(_) | State::Refused if !is_due => {
                    waits = true;
                    continue;
                }
                State::Listens(_) | State::Refused | State::Waits { .. } => {}
            }
            let was_tried = !matches!(group.entries[at].state, State::Waits { .. });
            if !group.is_next(at) {
                self.offer(&mut group.entries[at])?;
                continue;
            }
            let entry = &mut group.entries[at];
            let begins = match entry.call {
                Call::Transfer(End::To(peer) | End::From(peer), _) => {
                    match self.connection(entry, peer)? {
                        Some(request) => self.begin(group, at, &request)?,
                        None => false,
                    }
                }
                Call::Transfer(End::FromAny, _) => self.listen(group, at)?,
                Call::Collective(request) => {
                    if self.announced.is_none() {
                        self.announce(&request, &entry.memory)?;
                    }
                    self.begin(group, at, &request)?
                }
            };
            if !begins {
                waits = true;
                is_new |= !was_tried;
                let state = &mut group.entries[at].state;
                if matches!(state, State::Waits { .. }) {
                    *state = State::Refused;
                }
            }
        }
        let retry = match group.retry {
            Some((retry, _)) if !is_new => next_retry(retry),
            _ => RETRY,
        };
        if !waits {
            group.retry = None;
        } else if is_due || is_new {
            group.retry = Some((retry, Instant::now() + retry));
        }
        Ok(group.retry.map(|(retry, _)| retry))
    }

    /// Makes this rank's ends for a transfer that waits for its turn: its peer may want all ends
    /// before it runs anything.
    fn offer(&mut self, entry: &mut Entry<'_>) -> Result<(), Error> {
        let State::Waits { offered: false } = entry.state else {
            return Ok(());
        };
        let own = &self.own.bootstrap;
        let (rank, ranks) = (own.rank(), own.ranks());
        let peers = match entry.call {
            Call::Transfer(End::To(peer) | End::From(peer), _) => peer..peer + 1,
            Call::Transfer(End::FromAny, _) => 0..ranks,
            Call::Collective(_) => return Ok(()),
        };
        for peer in peers.filter(|it| *it != rank) {
            let request = entry.transfer(rank, peer);
            if !self.shares_connections(peer, request.tag) {
                can_hear(self.is_ready(&request))?;
            }
        }
        entry.state = State::Waits { offered: true };
        Ok(())
    }

    /// Begins a request. Returns `false` if a peer is not ready.
    fn begin(
        &mut self,
        group: &mut OpenGroup<'_>,
        at: usize,
        request: &Request,
    ) -> Result<bool, Error> {
        let place = match self.prepared.find(request) {
            Some(place) => place,
            None if !self.is_ready(request)? => return Ok(false),
            None => self.find(request)?,
        };
        if group.entries[at].call.is_collective() {
            self.note_launch(place, &group.entries[at].memory);
        }
        self.run_from_start(&mut group.entries[at], place);
        Ok(true)
    }

    pub(super) fn run_from_start(&mut self, entry: &mut Entry<'_>, place: usize) {
        let memory = (entry.memory.lend(), entry.scalar);
        self.prepared.hold(place);
        let part = part(self.prepared.get(place), memory, &self.own.registered);
        self.own.backend.begin(&mut { part });
        entry.state = State::Runs(place);
    }

    /// The request of a transfer with a peer over the connection of its tag. `None` if it must wait
    /// for one.
    pub(super) fn connection(
        &mut self,
        entry: &mut Entry<'_>,
        peer: u32,
    ) -> Result<Option<Request>, Error> {
        let rank = self.rank();
        let request = entry.transfer(rank, peer);
        if !self.shares_connections(peer, request.tag) {
            return Ok(Some(request));
        }
        let own = &mut self.own;
        let known = entry.connections.iter().find(|(it, _)| *it == peer);
        let tag = match known {
            Some((_, number)) => Some(*number),
            None => {
                let (bootstrap, to_tag) = (own.bootstrap.as_mut(), (peer, request.tag));
                let number = own
                    .connections
                    .begin_tag(bootstrap, to_tag, request.to == rank)?;
                entry.connections.extend(number.map(|it| (peer, it)));
                number
            }
        };
        Ok(tag.map(|tag| Request { tag, ..request }))
    }

    /// Whether messages with this tag have no connection of their own.
    pub(super) fn shares_connections(&self, peer: u32, tag: u32) -> bool {
        let own = &self.own;
        !own.backend.wires() && own.connections.shares_connections(peer, tag)
    }

    /// Whether a request can be prepared without waiting for its peers, or the backend waits for
    /// them.
    pub(super) fn is_ready(&mut self, request: &Request) -> Result<bool, Error> {
        if self.own.backend.wires() || self.prepared.find(request).is_some() {
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

    /// Runs what has begun. If nothing was moved, returns the reason of the wait.
    fn run_begun(
        &mut self,
        group: &mut OpenGroup<'_>,
        nap: Duration,
        pause: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Waiting>, Error> {
        let ranks = self.own.bootstrap.ranks();
        // As of the last look; the wait itself begins to count if there was none since.
        let since = group.entries.iter().map(|it| it.since);
        let since = since.fold(group.since, |one, other| Some(one?.max(other?)));
        let longest = group.entries.iter().map(|it| it.longest).max();
        let (mut bytes, mut collective) = (0, None);
        let mut begun: Vec<(usize, (Memory<'_>, u64))> = Vec::with_capacity(group.entries.len());
        for entry in group.entries.iter_mut().filter(|it| it.has_begun()) {
            bytes += entry.bytes(ranks);
            match &entry.state {
                State::Waits { .. } | State::Refused => {}
                State::Listens(sources) => {
                    let sources = sources.iter().map(|(_, place)| *place);
                    begun.extend(sources.map(|place| (place, (Memory::nothing(), 0))));
                }
                State::Runs(place) => {
                    if let Call::Collective(request) = &entry.call {
                        collective = Some((request.collective, self.prepared.get(*place).request));
                    }
                    begun.push((*place, (entry.memory.lend(), entry.scalar)));
                }
            }
        }
        // Each has its own program, so no place occurs twice.
        begun.sort_by_key(|(place, _)| *place);
        let own = &mut self.own;
        let parts = self.prepared.each(begun.into_iter());
        let parts = parts.map(|(prepared, memory)| part(prepared, memory, &own.registered));
        let mut parts: Vec<_> = parts.collect();
        // Transfers do not access buffers of peers, so launch and request are the collective's.
        let comparison = collective.map(|(it, _)| self.known.launch(it));
        let (collective, request) = collective.unwrap_or((Collective::SendRecv, 0));
        let progress = own.connections.progress_of(bytes);
        let (backend, mut context) = own.lend(Run {
            launch: (self.launches, request),
            collective,
            comparison,
            longest: longest.unwrap_or(own.longest),
            since,
            nap,
            spins: own.spins,
            progress: progress.as_deref(),
        });
        let ran = backend.run_some(&mut parts, &mut context, pause);
        if let Some(progress) = &progress {
            progress.finish();
        }
        ran
    }

    /// Takes what has ended.
    ///
    /// # Errors
    /// Peers ran another collective.
    fn take_done(&mut self, group: &mut OpenGroup<'_>) -> Result<Vec<Ended>, Error> {
        let mut done = Vec::new();
        let mut compared = Ok(());
        group.entries.retain(|entry| {
            let State::Runs(place) = &entry.state else {
                return true;
            };
            let prepared = self.prepared.get(*place);
            let ended = self.own.backend.has_ended(&prepared.program);
            if ended {
                prepared.note_run(&self.own.waiter);
                self.prepared.release(*place);
                let peer = match entry.call {
                    Call::Transfer(End::To(peer) | End::From(peer), _) => Some(peer),
                    Call::Transfer(End::FromAny, _) | Call::Collective(_) => None,
                };
                for (sender, number) in entry.connections.iter().filter(|_| entry.receives()) {
                    self.own.connections.end_tag(*sender, *number, true);
                }
                if let Call::Collective(request) = &entry.call {
                    compared = self.known.end(self.own.bootstrap.rank(), request);
                }
                let number = entry.number;
                done.push(Ended { number, peer });
            }
            !ended
        });
        compared.map(|()| done)
    }

    /// Checks whether waiting should continue, after some time in which nothing was moved.
    fn look(&mut self, group: &mut OpenGroup<'_>) -> Result<(), Error> {
        let now = Instant::now();
        let since = *group.since.get_or_insert(now);
        for entry in &mut group.entries {
            entry.since.get_or_insert(now);
        }
        if now < since.max(group.looked.unwrap_or(since)) + LOOK {
            return Ok(());
        }
        group.looked = Some(now);
        match self.look_at_all(group) {
            Err(Error::Aborted { .. }) if !group.gone => group.gone = true,
            looked => looked?,
        }
        Ok(())
    }

    fn look_at_all(&mut self, group: &OpenGroup<'_>) -> Result<(), Error> {
        let next = (0..group.entries.len()).filter(|at| group.is_next(*at));
        for at in next {
            let entry = &group.entries[at];
            let (collective, waiting) = match entry.call {
                Call::Transfer(end, _) => (Collective::SendRecv, end.waiting()),
                Call::Collective(request) => (request.collective, Waiting::Others),
            };
            let waiting = group.unmet.filter(|_| entry.has_begun()).unwrap_or(waiting);
            let comparison = match entry.call {
                Call::Collective(_) if entry.has_begun() || self.announced.is_some() => {
                    Some(self.known.launch(collective))
                }
                _ => None,
            };
            let mut supervisor = Supervisor {
                comparison,
                ..supervisor(&mut self.own, collective, entry.longest)
            };
            let since = group.since.max(entry.since).unwrap_or_else(Instant::now);
            supervisor.look(since, waiting)?;
            self.expect_sources(group, at)?;
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

/// What looks whether a wait should continue.
fn supervisor<B: Backend>(
    own: &mut Parts<B>,
    collective: Collective,
    longest: Duration,
) -> Supervisor<'_> {
    Supervisor {
        bootstrap: own.bootstrap.as_mut(),
        waiter: &own.waiter,
        collective,
        longest,
        since: None,
        nap: LOOK,
        progress: None,
        comparison: None,
    }
}
