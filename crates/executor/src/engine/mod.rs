//! Launches: finds or prepares the program of a request, and runs it.

mod advance;
mod choice;

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

use program::{BoundProgram, Channels, Collective, MessageSize, Transfer};
use rustc_hash::FxHashMap;
use shared_memory::{ArenaBuffer, Descriptor, Waiter};

use crate::backend::{Backend, LaunchContext, OwnWiring, Part, PrepareRequest, WiredBy};
use crate::bootstrap::{Bootstrap, give_up};
use crate::callers_memory::BufferAccess;
use crate::comparison::{Known, hash};
use crate::connections::{Connections, Wiring, slot_class};
use crate::error::{Error, Failure};
use crate::memory::Memory;
use crate::programs::{ProgramKey, Programs};
use crate::registered::Registered;
use crate::request::{Choice, Request};
use crate::supervisor::{LOOK, Supervisor};

/// Most prepared programs that are kept, unless one of them runs. With more sizes, programs are
/// prepared again.
const MOST_PREPARED: usize = 4096;

/// A program that can be run again and again.
struct Prepared<P> {
    program: P,
    /// Whether ranks access each other's buffers.
    direct: bool,
    /// A hash of the request and its choice.
    request: u64,
    /// The least lengths of this rank's input and output, bytes.
    lengths: (u64, u64),
    /// Whether it has run.
    has_run: bool,
    /// The age of the known requests at its last launch.
    age: u64,
}

impl<P> Prepared<P> {
    /// Notes the end of a run. The first run waits for ranks of the same core that prepare the
    /// program: the yielder forgets these long yields, which otherwise mean a busy core.
    fn note_run(&mut self, waiter: &Waiter) {
        if !std::mem::replace(&mut self.has_run, true) {
            waiter.yielder().forget();
        }
    }
}

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

/// Everything that a rank needs to run collectives, owned by the thread that runs them.
pub(crate) struct Engine<B: Backend> {
    own: Parts<B>,
    prepared: Vec<Prepared<B::Program>>,
    index: FxHashMap<Request, usize>,
    /// The last request and its index, because most launches repeat it.
    last: Option<(Request, usize)>,
    /// Collectives launched so far, and those whose programs all ranks failed to prepare. All ranks
    /// count alike.
    launches: u64,
    /// The hash of the last of them, while it is not launched.
    announced: Option<u64>,
    /// The requests that this rank ran.
    known: Known,
    /// Whether programs of an open group stay where they are.
    keeps: bool,
    failure: Option<Failure>,
}

/// A transfer of a group: the index of its program; its sender, receiver and tag; its memory.
type Grouped<'a> = (usize, (u32, u32, u32), Memory<'a>);

impl<B: Backend> Engine<B> {
    pub fn new(own: Parts<B>) -> Self {
        let known = Known::new(own.connections.tables_of_peers());
        Self {
            own,
            prepared: Vec::new(),
            index: FxHashMap::default(),
            last: None,
            launches: 0,
            announced: None,
            known,
            keeps: false,
            failure: None,
        }
    }

    /// The own rank.
    pub fn rank(&self) -> u32 {
        self.own.bootstrap.rank()
    }

    /// Sets the longest wait for another rank.
    pub fn set_longest_wait(&mut self, longest: Duration) {
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

    /// Runs one collective.
    #[inline]
    pub fn launch(
        &mut self,
        request: &Request,
        memory: Memory<'_>,
        scalar: u64,
    ) -> Result<(), Error> {
        let at = match &self.last {
            Some((last, at)) if last == request => *at,
            _ => {
                let own = &self.own.bootstrap;
                let lengths = request.lengths(own.rank(), own.ranks());
                memory.expect(request, lengths)?;
                let announced = self.announce(request, &memory);
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
        memory.expect(request, self.prepared[at].lengths)?;
        self.note_launch(at, &memory);
        let own = &mut self.own;
        let bytes = request.bytes(own.bootstrap.ranks());
        let progress = own.connections.progress_of(bytes);
        let prepared = &mut self.prepared[at];
        let scratch = own.registered.scratch();
        let hash = prepared.request;
        let launched = self.known.launch(request.collective);
        let mut part = [Part {
            program: &mut prepared.program,
            memory,
            scratch,
            scalar,
        }];
        let mut context = LaunchContext {
            connections: &mut own.connections,
            registered: &own.registered,
            launch: self.launches,
            request: hash,
            // Inline progress is a better use of the time than polling.
            spins: if progress.is_some() { 0 } else { own.spins },
            supervisor: Supervisor {
                bootstrap: own.bootstrap.as_mut(),
                waiter: &own.waiter,
                collective: request.collective,
                longest: own.longest,
                since: None,
                nap: LOOK,
                progress: progress.as_deref(),
                comparison: Some(launched),
            },
        };
        let ran = own.backend.run(&mut part, &mut context).and_then(|()| {
            if let Some(progress) = &progress {
                progress.finish();
            }
            prepared.note_run(&own.waiter);
            self.known.end(own.bootstrap.rank(), request)
        });
        ran.map_err(|error| self.fail(error))
    }

    /// Counts a launch of the program at this place. Publishes it if peers access its buffers or
    /// the request is new.
    #[inline]
    fn note_launch(&mut self, at: usize, memory: &Memory<'_>) {
        let prepared = &mut self.prepared[at];
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
        if self.failure.is_some() || self.index.contains_key(request) {
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

    /// Runs transfers together.
    pub fn launch_group(&mut self, transfers: Vec<(Request, Memory<'_>)>) -> Result<(), Error> {
        if self.failure.is_some() {
            return Err(self.broken());
        }
        // Preparing a program can move the list, so all are prepared first; those that receive
        // before the others, because senders wait for the ends that receivers make.
        let is_known = |(request, _): &(Request, _)| self.index.contains_key(request);
        if !transfers.iter().all(is_known) {
            let own = self.rank();
            let requests = || transfers.iter().map(|(request, _)| request);
            let receives = requests().filter(|it| it.to == own);
            for request in receives.chain(requests().filter(|it| it.to != own)) {
                self.find(request)?;
            }
        }
        // Transfers between the same ranks with the same tag share FIFOs, so they keep their order:
        // the first of each pair and tag run together, then the second of each, and so on. Both
        // ends count alike, so neither waits for a transfer that the other runs later.
        let ranks = self.own.bootstrap.ranks();
        let bytes = transfers.iter().map(|(request, _)| request.bytes(ranks));
        let bytes = bytes.sum();
        let mut rounds: Vec<Vec<Grouped<'_>>> = Vec::new();
        // From here on their places stay.
        self.keeps = true;
        for (request, memory) in transfers {
            let place = self.find(&request)?;
            let pair = (request.root, request.to, request.tag);
            let round = rounds
                .iter()
                .position(|round| round.iter().all(|(_, other, _)| *other != pair));
            let at = round.unwrap_or_else(|| {
                rounds.push(Vec::new());
                rounds.len() - 1
            });
            rounds[at].push((place, pair, memory));
        }
        self.keeps = false;
        for mut round in rounds {
            // Each pair and tag has its own program, so no index occurs twice.
            round.sort_by_key(|(place, ..)| *place);
            let mut parts = Vec::with_capacity(round.len());
            let mut programs = self.prepared.iter_mut().enumerate();
            for (place, _, memory) in round {
                if let Some((_, prepared)) = programs.find(|(at, _)| *at == place) {
                    parts.push(Part {
                        program: &mut prepared.program,
                        memory,
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
                    since: None,
                    nap: LOOK,
                    progress: progress.as_deref(),
                    comparison: None,
                },
            };
            let done = own.backend.run(&mut parts, &mut context);
            drop(parts);
            if let Some(progress) = &progress {
                progress.finish();
            }
            if let Err(error) = done {
                return Err(self.fail(error));
            }
        }
        Ok(())
    }

    /// The index of the program of a request, which is prepared if it is new.
    #[cold]
    #[inline(never)]
    fn find(&mut self, request: &Request) -> Result<usize, Error> {
        if self.failure.is_some() {
            return Err(self.broken());
        }
        let at = match self.index.get(request) {
            Some(at) => *at,
            None => {
                let prepared = match self.prepare(request) {
                    Ok(prepared) => prepared,
                    Err(error) => return Err(self.fail_unless_common(error)),
                };
                if self.prepared.len() >= MOST_PREPARED && !self.keeps {
                    self.prepared.clear();
                    self.index.clear();
                }
                self.prepared.push(prepared);
                let at = self.prepared.len() - 1;
                self.index.insert(*request, at);
                at
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

    fn prepare(&mut self, request: &Request) -> Result<Prepared<B::Program>, Error> {
        let choice = self.choice(request)?;
        let (bound, message) = self.bind(request, &choice)?;
        let own = &mut self.own;
        let (rank, ranks) = (own.bootstrap.rank(), own.bootstrap.ranks());
        let wired_by = own.backend.wire(&mut OwnWiring {
            collective: request.collective,
            bound: &bound,
            protocol: choice.protocol,
            buffer_bytes: request.bytes(ranks),
            bootstrap: own.bootstrap.as_mut(),
            longest: own.longest,
        })?;
        let wiring = match wired_by {
            WiredBy::Backend => Wiring::default(),
            WiredBy::Communicator => {
                let reserved = own.registered.reserve_scratch(bound.scratch_bytes as usize);
                reserved.map_err(|source| self.memory(source))?;
                let own = &mut self.own;
                let bootstrap = own.bootstrap.as_mut();
                let slot_bytes = slot_bytes(&own.backend, &bound, &message);
                own.connections
                    .wire(bootstrap, choice.protocol, slot_bytes, &bound)?
            }
        };
        let own = &mut self.own;
        let program = own.backend.prepare(&PrepareRequest {
            bound: &bound,
            wiring: &wiring,
            protocol: choice.protocol,
            element: request.element,
            reduction: request.collective.reduces().then_some(request.reduction),
            rank,
            ranks,
        })?;
        Ok(Prepared {
            program,
            direct: choice.transfer != Transfer::Fifo,
            request: hash(request, &choice),
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
    /// before they learn that this rank left.
    #[cold]
    fn fail(&mut self, error: Error) -> Error {
        let error = give_up(self.own.bootstrap.as_mut(), error);
        self.failure = Some(error.failure(self.rank()));
        error
    }
}

/// Data bytes of the slots of a program.
fn slot_bytes<B: Backend>(backend: &B, bound: &BoundProgram, message: &MessageSize) -> u32 {
    match backend.shortens_slots() {
        true => slot_class(bound.most_slot_bytes, message.slot_bytes),
        false => message.slot_bytes,
    }
}
