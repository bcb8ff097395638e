//! Launches: finds or prepares the program of a request, and runs it.

mod advance;
mod any_rank;
mod attempt;
mod choice;
mod closed;
pub mod enqueue;
mod prepared;
mod registration;

use std::any::Any;
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use prepared::{Prepared, Table};
use program::{BoundProgram, Channels, Collective, MessageSize, Transfer};
use shared_memory::{ArenaBuffer, Descriptor, Waiter};

use crate::backend::{Backend, LaunchContext, OwnWiring, Part, PrepareRequest};
use crate::bootstrap::{Bootstrap, give_up};
use crate::callers_memory::BufferAccess;
use crate::comparison::{Comparison, Known, hash};
use crate::connections::{Connections, Wiring, slot_class};
use crate::error::{Error, Failure};
use crate::memory::Memory;
use crate::network::Progress;
use crate::programs::{ProgramKey, Programs};
use crate::registered::Registered;
use crate::request::{Choice, Request};
use crate::supervisor::{LOOK, Supervisor};

/// Publishes the request and the buffers of a launch to peers.
fn publish<B: Backend>(own: &Parts<B>, (launch, request): (u64, u64), memory: &Memory<'_>) {
    let buffer_table = &own.connections.buffer_tables[own.bootstrap.rank() as usize];
    let registered = &own.registered;
    let describe = |pointer: *const u8, bytes: usize| Descriptor {
        place: registered.place(pointer, bytes),
        bytes: bytes as u64,
    };
    let scratch = registered.scratch().cast_const();
    buffer_table.publish(
        launch,
        request,
        &[
            describe(memory.input(), memory.input_bytes()),
            describe(memory.output().cast_const(), memory.output_bytes()),
            describe(scratch, registered.scratch_bytes()),
        ],
    );
}

/// A program to run, and the resources for it.
type PartAndContext<'a, 'b, 'c, B> = (
    &'a mut [Part<'b, <B as Backend>::Program>; 1],
    &'a mut LaunchContext<'c>,
);

/// The parts of an engine.
pub(crate) struct Parts<B: Backend> {
    pub backend: B,
    pub bootstrap: Box<dyn Bootstrap>,
    pub connections: Connections,
    pub registered: Registered,
    pub programs: Programs,
    pub channels: Channels,
    pub waiter: Waiter,
    pub spins: u32,
    pub longest: Duration,
    pub buffers: BufferAccess,
}

/// What a launch needs beside its programs and the parts of an engine.
struct Run<'a> {
    /// The number of the launch, and the hash of its request.
    launch: (u64, u64),
    collective: Collective,
    comparison: Option<Comparison<'a>>,
    longest: Duration,
    since: Option<Instant>,
    nap: Duration,
    spins: u32,
    progress: Option<&'a dyn Progress>,
}

impl<B: Backend> Parts<B> {
    /// The backend, and the resources of a launch.
    #[inline]
    fn lend<'a>(&'a mut self, run: Run<'a>) -> (&'a mut B, LaunchContext<'a>) {
        let context = LaunchContext {
            connections: &mut self.connections,
            registered: &self.registered,
            launch: run.launch.0,
            request: run.launch.1,
            spins: run.spins,
            supervisor: Supervisor {
                bootstrap: self.bootstrap.as_mut(),
                waiter: &self.waiter,
                collective: run.collective,
                longest: run.longest,
                since: run.since,
                nap: run.nap,
                progress: run.progress,
                comparison: run.comparison,
            },
        };
        (&mut self.backend, context)
    }

    /// Takes this rank's buffers back from its peers after a failure.
    fn withdraw_buffers(&self) {
        let has_ended = |peer| self.registered.has_ended(peer);
        self.connections.withdraw_buffers(has_ended);
    }
}

/// Everything that a rank needs to run collectives, owned by the thread that runs them.
pub(crate) struct Engine<B: Backend> {
    own: Parts<B>,
    prepared: Table<B::Program>,
    /// The last request and its place, because most launches repeat it.
    last: Option<(Request, usize)>,
    /// Collectives launched so far, and those whose programs all ranks failed to prepare. All ranks
    /// count alike.
    launches: u64,
    /// The hash of the last of them, while it is not launched.
    announced: Option<u64>,
    /// The requests that this rank ran.
    known: Known,
    failure: Option<Failure>,
}

impl<B: Backend> Engine<B> {
    pub fn new(own: Parts<B>) -> Self {
        let known = Known::new(own.connections.tables_of_peers());
        let prepared = Table::new(own.backend.wires());
        Self {
            own,
            prepared,
            last: None,
            launches: 0,
            announced: None,
            known,
            failure: None,
        }
    }

    /// The own rank.
    pub fn rank(&self) -> u32 {
        self.own.bootstrap.rank()
    }

    /// Whether it can look for messages of all ranks.
    pub fn listens(&self) -> bool {
        !self.own.backend.wires()
    }

    /// The longest wait for another rank.
    pub const fn longest_wait(&self) -> Duration {
        self.own.longest
    }

    /// Sets the longest wait for another rank.
    pub const fn set_longest_wait(&mut self, longest: Duration) {
        self.own.longest = longest;
        self.own.connections.set_longest_wait(longest);
    }

    /// Allocates memory that peers can access.
    pub fn allocate(&self, bytes: usize) -> Result<ArenaBuffer, Error> {
        let allocated = self.own.registered.allocate(bytes);
        allocated.map_err(|source| self.memory(source))
    }

    fn memory(&self, source: shared_memory::Error) -> Error {
        Error::Memory {
            rank: self.own.bootstrap.rank(),
            cause: Arc::new(source),
        }
    }

    /// Runs one collective alone, which needs no entry in a group.
    #[inline]
    pub fn launch(
        &mut self,
        request: &Request,
        memory: Memory<'_>,
        scalar: u64,
    ) -> Result<(), Error> {
        self.withdrawing(|own| own.try_launch(request, memory, scalar))
    }

    #[inline]
    fn try_launch(
        &mut self,
        request: &Request,
        memory: Memory<'_>,
        scalar: u64,
    ) -> Result<(), Error> {
        let at = self.place(request, &memory)?;
        self.note_launch(at, &memory);
        let bytes = request.bytes(self.own.bootstrap.ranks());
        let progress = self.own.connections.progress_of(bytes);
        let ran = self.with_part(at, (memory, scalar), progress.as_deref(), |backend, it| {
            let (part, context) = it;
            backend.begin(&mut part[0]);
            // Nothing stops it, so it has ended.
            backend.run_some(part, context, &mut || false)
        });
        let ran = ran.and_then(|_| {
            if let Some(progress) = &progress {
                progress.finish();
            }
            self.prepared.get(at).note_run(&self.own.waiter);
            self.known.end(self.own.bootstrap.rank(), request)
        });
        ran.map_err(|error| self.fail(error))
    }

    /// The place of the program of a request, whose memory is long enough.
    #[inline]
    fn place(&mut self, request: &Request, memory: &Memory<'_>) -> Result<usize, Error> {
        let at = match &self.last {
            Some((last, at)) if last == request => *at,
            _ => {
                let own = &self.own.bootstrap;
                let lengths = request.lengths(own.rank(), own.ranks());
                memory.expect(request, lengths)?;
                let announced = self.announce(request, memory);
                let found = match announced {
                    Ok(()) => self.find(request),
                    Err(error) => Err(self.fail_unless_common(error)),
                };
                found.inspect_err(|_| self.announced = None)?
            }
        };
        if self.failure.is_some() {
            return Err(self.broken());
        }
        memory.expect(request, self.prepared.get(at).lengths)?;
        Ok(at)
    }

    /// Does something with the program at a place, its memory and scalar.
    #[inline]
    fn with_part<R>(
        &mut self,
        at: usize,
        (memory, scalar): (Memory<'_>, u64),
        progress: Option<&dyn Progress>,
        run: impl FnOnce(&mut B, PartAndContext<'_, '_, '_, B>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let own = &mut self.own;
        let prepared = self.prepared.get(at);
        let launch = Run {
            launch: (self.launches, prepared.request),
            collective: prepared.collective,
            comparison: Some(self.known.launch(prepared.collective)),
            longest: own.longest,
            since: None,
            nap: LOOK,
            // Inline progress is a better use of the time than polling.
            spins: if progress.is_some() { 0 } else { own.spins },
            progress,
        };
        let mut part = [part(prepared, (memory, scalar), &own.registered)];
        let (backend, mut context) = own.lend(launch);
        run(backend, (&mut part, &mut context))
    }

    /// Counts a launch of the program at this place. Publishes it if peers access its buffers or
    /// the request is new.
    #[inline]
    fn note_launch(&mut self, at: usize, memory: &Memory<'_>) {
        let prepared = self.prepared.get(at);
        if self.announced.take() != Some(prepared.request) {
            self.launches += 1;
        }
        let launch = (self.launches, prepared.request);
        let is_new = self.known.note(launch.0, launch.1, &mut prepared.age);
        if prepared.direct || is_new {
            publish(&self.own, launch, memory);
        }
    }

    /// Publishes a request before its program is prepared, since ranks whose calls differ may wait
    /// for each other to prepare them.
    #[cold]
    #[inline(never)]
    fn announce(&mut self, request: &Request, memory: &Memory<'_>) -> Result<(), Error> {
        if self.failure.is_some() || self.prepared.find(request).is_some() {
            return Ok(());
        }
        let choice = self.choice(request)?;
        // What all refuse is not counted.
        self.bind(request, &choice)?;
        let hash = hash(request, &choice);
        self.launches += 1;
        self.announced = Some(hash);
        let launch = (self.launches, hash);
        if !self.known.note(launch.0, launch.1, &mut 0) {
            return Ok(());
        }
        publish(&self.own, launch, memory);
        // Of two ranks that look after they published, one at least sees the other.
        fence(Ordering::SeqCst);
        self.known.launch(request.collective).look(self.rank())
    }

    /// The place of the program of a request, which is prepared if it is new.
    #[cold]
    #[inline(never)]
    fn find(&mut self, request: &Request) -> Result<usize, Error> {
        if self.failure.is_some() {
            return Err(self.broken());
        }
        let at = match self.prepared.find(request) {
            Some(at) => at,
            None => {
                // Its connections and its memory change what earlier launches use.
                self.drain()?;
                let prepared = match self.prepare(request) {
                    Ok(prepared) => prepared,
                    Err(error) => return Err(self.fail_unless_common(error)),
                };
                self.prepared.insert(*request, prepared)
            }
        };
        self.last = Some((*request, at));
        Ok(at)
    }

    /// The program of a request for its message.
    fn bind(
        &mut self,
        request: &Request,
        choice: &Choice,
    ) -> Result<(BoundProgram, MessageSize), Error> {
        let own = &mut self.own;
        let (rank, ranks) = (own.bootstrap.rank(), own.bootstrap.ranks());
        let key = ProgramKey::of(request, choice);
        let programs = own.programs.get(&key, &own.channels, rank)?;
        let message = MessageSize {
            count: request.count,
            element_bytes: request.element.bytes(),
            slot_bytes: own.backend.slot_bytes().of(choice.protocol),
            piece_bytes: choice.piece_bytes,
        };
        let bound = programs.bind(rank, &message)?.with_tag(request.tag);
        let replaced = match bound.without_multicast(rank, ranks) {
            Cow::Owned(replaced) if !own.backend.multicasts() => Some(replaced),
            _ => None,
        };
        Ok((replaced.unwrap_or(bound), message))
    }

    fn prepare_choice(
        &mut self,
        request: &Request,
        choice: &Choice,
    ) -> Result<Prepared<B::Program>, Error> {
        let (bound, message) = self.bind(request, choice)?;
        let registered = self.bind_registered(request, choice)?;
        let own = &mut self.own;
        let (rank, ranks) = (own.bootstrap.rank(), own.bootstrap.ranks());
        let wiring = if own.backend.wires() {
            own.backend.wire(&mut OwnWiring {
                collective: request.collective,
                reduces: request.collective.reduces().then_some(request.element),
                bound: &bound,
                protocol: choice.protocol,
                buffer_bytes: request.bytes(ranks),
                bootstrap: own.bootstrap.as_mut(),
                longest: own.longest,
            })?;
            Wiring::default()
        } else {
            let reserved = own.registered.reserve_scratch(bound.scratch_bytes as usize);
            reserved.map_err(|source| self.memory(source))?;
            let own = &mut self.own;
            let bootstrap = own.bootstrap.as_mut();
            let slot_bytes = slot_bytes(&own.backend, &bound, &message);
            own.connections
                .wire(bootstrap, choice.protocol, slot_bytes, &bound)?
        };
        let own = &mut self.own;
        let program = own.backend.prepare(&PrepareRequest {
            bound: &bound,
            registered: registered.as_ref(),
            wiring: &wiring,
            protocol: choice.protocol,
            element: request.element,
            count: request.count,
            reduction: request.collective.reduces().then_some(request.reduction),
            rank,
            ranks,
        })?;
        Ok(Prepared {
            program,
            direct: choice.transfer != Transfer::Fifo,
            collective: request.collective,
            request: hash(request, choice),
            lengths: request.lengths(rank, ranks),
            has_run: false,
            age: 0,
        })
    }

    #[cold]
    fn broken(&self) -> Error {
        let rank = self.own.bootstrap.rank();
        let unknown = || Failure {
            rank,
            what: "unknown".to_owned(),
        };
        let failure = self.failure.clone().unwrap_or_else(unknown);
        Error::Broken { rank, failure }
    }

    #[cold]
    fn fail_unless_common(&mut self, error: Error) -> Error {
        match error.is_common() {
            true => error,
            false => self.fail(error),
        }
    }

    /// Marks the communicator as failed and tells the others, so that they learn of the failure
    /// before they learn that this rank left. The buffers are the caller's alone from then on.
    #[cold]
    fn fail(&mut self, error: Error) -> Error {
        let error = give_up(self.own.bootstrap.as_mut(), error);
        self.own.withdraw_buffers();
        self.failure = Some(error.failure(self.rank()));
        error
    }

    /// Runs what lends the caller's buffers to peers. A panic withdraws them before it frees them.
    #[inline]
    fn withdrawing<T>(&mut self, run: impl FnOnce(&mut Self) -> T) -> T {
        match catch_unwind(AssertUnwindSafe(|| run(self))) {
            Ok(ran) => ran,
            Err(panic) => self.end_by(panic),
        }
    }

    /// Fails as [`Self::fail`], and resumes the panic.
    #[cold]
    fn end_by(&mut self, panic: Box<dyn Any + Send>) -> ! {
        let failure = Failure {
            rank: self.rank(),
            what: "it panicked".to_owned(),
        };
        self.own.bootstrap.fail(&failure);
        self.own.withdraw_buffers();
        self.failure = Some(failure);
        resume_unwind(panic)
    }
}

impl<B: Backend> Drop for Engine<B> {
    fn drop(&mut self) {
        if self.failure.is_none() && !std::thread::panicking() {
            let own = &mut self.own;
            own.connections.leave(own.bootstrap.as_mut());
        }
    }
}

/// Data bytes of the slots of a program.
fn slot_bytes<B: Backend>(backend: &B, bound: &BoundProgram, message: &MessageSize) -> u32 {
    match backend.shortens_slots() {
        true => slot_class(bound.most_slot_bytes, message.slot_bytes),
        false => message.slot_bytes,
    }
}

/// A program with its memory.
fn part<'a, P>(
    prepared: &'a mut Prepared<P>,
    (memory, scalar): (Memory<'a>, u64),
    registered: &Registered,
) -> Part<'a, P> {
    Part {
        program: &mut prepared.program,
        memory,
        scratch: registered.scratch(),
        scalar,
    }
}
