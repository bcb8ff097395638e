//! Launches: finds or prepares the program of a request, and runs it.

mod advance;

use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use program::{BoundProgram, Channels, Collective, MessageSize, Reduction, Transfer};
use rustc_hash::{FxHashMap, FxHasher};
use shared_memory::{ArenaBuffer, Descriptor, Waiter};

use crate::backend::{
    Backend, CommunicatorShape, LaunchContext, OwnWiring, Part, PrepareRequest, WiredBy,
};
use crate::bootstrap::{Bootstrap, give_up};
use crate::callers_memory::BufferAccess;
use crate::connections::{Connections, Wiring, slot_class};
use crate::error::{Error, Failure};
use crate::memory::Memory;
use crate::programs::{ProgramKey, Programs};
use crate::registered::Registered;
use crate::request::{Choice, Request};
use crate::supervisor::{LOOK, Supervisor};
use crate::transport::Transport;

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
    /// Whether it has run.
    has_run: bool,
}

impl<P> Prepared<P> {
    /// Notes that it has run. Yields were long while other ranks of the core prepared it, as if a
    /// program computed there.
    fn note_run(&mut self, waiter: &Waiter) {
        if !std::mem::replace(&mut self.has_run, true) {
            waiter.yielder().forget();
        }
    }

    /// Publishes the buffers of a launch to peers, if they access these.
    fn publish<B: Backend>(&self, own: &Parts<B>, launch: u64, memory: &Memory<'_>) {
        if !self.direct {
            return;
        }
        let buffer_table = &own.connections.buffer_tables[own.bootstrap.rank() as usize];
        let registered = &own.registered;
        let describe = |pointer: *const u8, bytes: usize| Descriptor {
            place: registered.place(pointer, bytes),
            bytes: bytes as u64,
        };
        let scratch = registered.scratch().cast_const();
        buffer_table.publish(
            launch,
            self.request,
            &[
                describe(memory.input(), memory.input_bytes()),
                describe(memory.output().cast_const(), memory.output_bytes()),
                describe(scratch, registered.scratch_bytes()),
            ],
        );
    }
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
    /// Collectives launched so far. All ranks count alike.
    launches: u64,
    /// Whether programs of an open group stay where they are.
    keeps: bool,
    failure: Option<Failure>,
}

/// A transfer of a group: the index of its program; its sender, receiver and tag; its memory.
type Grouped<'a> = (usize, (u32, u32, u32), Memory<'a>);

impl<B: Backend> Engine<B> {
    pub fn new(own: Parts<B>) -> Self {
        Self {
            own,
            prepared: Vec::new(),
            index: FxHashMap::default(),
            last: None,
            launches: 0,
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

    /// The inputs of a choice.
    pub fn shape(&self) -> CommunicatorShape {
        let ranks = self.own.bootstrap.ranks();
        let (fewest, most) = self.own.channels.ranks_per_host();
        CommunicatorShape {
            ranks,
            one_process: self.own.connections.all_by(Transport::P2p),
            hosts: self.own.channels.host_count(),
            even_hosts: fewest == most,
            channels: self.own.channels.count(),
            crowd: self.own.bootstrap.crowd(),
            buffers: self.own.buffers,
        }
    }

    /// The choice for a request, if this communicator supports it.
    pub fn choice(&self, request: &Request) -> Result<Choice, Error> {
        let ranks = self.own.bootstrap.ranks();
        let (element, reduction) = (request.element, request.reduction);
        if request.collective.reduces() && !self.own.backend.reduces(element, reduction) {
            return Err(Error::NoReduction {
                backend: self.own.backend.name(),
                element,
                reduction,
            });
        }
        let choice = request
            .choice
            .or_else(|| self.own.backend.choose(request, &self.shape()));
        let unsupported = |why: String| Error::Unsupported {
            collective: request.collective,
            ranks,
            why,
        };
        let choice = choice.ok_or_else(|| {
            unsupported(format!(
                "the {} backend has no choice",
                self.own.backend.name()
            ))
        })?;
        if let Some(why) = self.own.backend.refuses(&choice) {
            return Err(unsupported(why));
        }
        let reaches = self.shape().hosts == 1 || self.own.backend.accesses_all();
        if choice.transfer.stays_on_host() && !reaches {
            return Err(unsupported(
                "a direct or staged transfer accesses the memory of other ranks, and some are on other hosts; take the \
                 transfer `fifo`"
                    .to_owned(),
            ));
        }
        if choice.transfer.accesses_buffers() && self.own.buffers == BufferAccess::Refused {
            return Err(unsupported(format!(
                "the kernel lets no process access the memory of another one here, which the transfer `{}` needs for \
                 memory of the caller; take `fifo`, or give the container the capability SYS_PTRACE",
                choice.transfer
            )));
        }
        if self.own.backend.multicasts()
            && request.collective.reduces()
            && !choice.schedule.reduces(request.element, request.reduction)
        {
            return Err(unsupported(format!(
                "switches do not reduce {} of {} ({}); take another algorithm",
                request.reduction,
                request.element,
                choice.schedule.name()
            )));
        }
        // Only the peer knows the factor of its input.
        if request.collective.reduces()
            && request.reduction == Reduction::PreMultipliedSum
            && choice.transfer != Transfer::Fifo
        {
            return Err(unsupported(
                "mulsum multiplies inputs before they are sent, so they cannot be read where they are; take the \
                 transfer `fifo`"
                    .to_owned(),
            ));
        }
        Ok(choice)
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
            _ => self.find(request)?,
        };
        if self.failure.is_some() {
            return Err(self.broken());
        }
        let own = &mut self.own;
        let bytes = request.bytes(own.bootstrap.ranks());
        let progress = own.connections.progress_of(bytes);
        let prepared = &mut self.prepared[at];
        let scratch = own.registered.scratch();
        self.launches += 1;
        prepared.publish(own, self.launches, &memory);
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
            request: prepared.request,
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
            },
        };
        match own.backend.run(&mut part, &mut context) {
            Ok(()) => {
                if let Some(progress) = &progress {
                    progress.finish();
                }
                prepared.note_run(&own.waiter);
                Ok(())
            }
            Err(error) => Err(self.fail(error)),
        }
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
                    Err(error) if error.is_common() => return Err(error),
                    Err(error) => return Err(self.fail(error)),
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
            has_run: false,
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

/// A hash of what is run and how, the same in all processes of one program.
fn hash(request: &Request, choice: &Choice) -> u64 {
    let mut hasher = FxHasher::default();
    let choice = Some(*choice);
    Request { choice, ..*request }.hash(&mut hasher);
    hasher.finish()
}
