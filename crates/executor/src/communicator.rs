//! Communicators: how one is made, and what it does besides collectives.

use std::time::Duration;

use program::{BoundProgram, Collective};

use crate::backend::{Backend, CommunicatorShape, InFlight};
use crate::bootstrap::Bootstrap;
use crate::bootstrap::local::Local;
use crate::buffer::Buffer;
use crate::element::Element;
use crate::engine::Engine;
use crate::error::Error;
use crate::memory::Memory;
use crate::programs::Programs;
use crate::request::{Choice, Request};
use crate::settings::Settings;
use crate::starting::Starting;

/// A rank's membership in a group of ranks that run collectives together.
///
/// All ranks call the same collectives in the same order, with equal counts, types, operations and
/// roots.
pub struct Communicator<B: Backend> {
    pub(crate) rank: u32,
    pub(crate) ranks: u32,
    pub(crate) engine: Engine<B>,
    pub(crate) choice: Option<Choice>,
}

impl<B: Backend> Communicator<B> {
    /// Communicators of ranks that are threads of this process, in rank order. Use each on a thread
    /// of its own. `backend` makes the backend of a rank.
    ///
    /// # Errors
    /// There is no memory, or the settings are for another number of ranks.
    pub fn local(
        ranks: u32,
        settings: &Settings,
        mut backend: impl FnMut(u32) -> B,
    ) -> Result<Vec<Self>, Error> {
        let programs = Programs::default();
        let mut starting = Vec::with_capacity(ranks as usize);
        for (bootstrap, rank) in Local::all(ranks).into_iter().zip(0..) {
            let bootstrap = Box::new(bootstrap);
            starting.push(Starting::new(
                backend(rank),
                bootstrap,
                programs.clone(),
                settings,
            )?);
        }
        let finished = starting.into_iter().zip(0..).map(|(starting, rank)| {
            Ok(Self {
                rank,
                ranks,
                engine: starting.finish()?,
                choice: None,
            })
        });
        finished.collect()
    }

    /// The communicator of one rank, which meets the others through a bootstrap.
    ///
    /// # Errors
    /// Other ranks do not join in time, or there is no memory.
    pub fn join(
        backend: B,
        bootstrap: Box<dyn Bootstrap>,
        settings: &Settings,
    ) -> Result<Self, Error> {
        Self::join_with(backend, bootstrap, Programs::default(), settings)
    }

    /// The communicators of ranks that are threads of this process, in their order, and meet others
    /// through their bootstraps. They share proved programs. Use each on a thread of its own.
    ///
    /// # Errors
    /// As for [`Self::join`]; the error of a rank that failed by itself, if there is one.
    pub fn join_all(
        ranks: Vec<(B, Box<dyn Bootstrap>)>,
        settings: &Settings,
    ) -> Result<Vec<Self>, Error> {
        let programs = Programs::default();
        let joined: Vec<Result<Self, Error>> = std::thread::scope(|scope| {
            let join = |(backend, bootstrap): (B, Box<dyn Bootstrap>)| {
                let (rank, programs) = (bootstrap.rank(), programs.clone());
                let thread = std::thread::Builder::new().name(format!("rank {rank} joins"));
                let joins = move || Self::join_with(backend, bootstrap, programs, settings);
                (rank, thread.spawn_scoped(scope, joins))
            };
            let threads: Vec<_> = ranks.into_iter().map(join).collect();
            let joined = threads.into_iter().map(|(rank, thread)| {
                let why = |what: String| Error::Bootstrap { rank, why: what };
                let thread = thread.map_err(|error| why(format!("it cannot start: {error}")))?;
                let ended = thread.join();
                ended.unwrap_or_else(|_| Err(why("its thread panicked".to_owned())))
            });
            joined.collect()
        });
        let (joined, failed): (Vec<_>, Vec<_>) = joined.into_iter().partition(Result::is_ok);
        let errors = failed.into_iter().filter_map(Result::err);
        match errors.min_by_key(|error| matches!(error, Error::Aborted { .. })) {
            Some(error) => Err(error),
            None => Ok(joined.into_iter().flatten().collect()),
        }
    }

    fn join_with(
        backend: B,
        bootstrap: Box<dyn Bootstrap>,
        programs: Programs,
        settings: &Settings,
    ) -> Result<Self, Error> {
        let (rank, ranks) = (bootstrap.rank(), bootstrap.ranks());
        let starting = Starting::new(backend, bootstrap, programs, settings)?;
        Ok(Self {
            rank,
            ranks,
            engine: starting.finish()?,
            choice: None,
        })
    }

    /// The own rank.
    pub const fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks of the communicator.
    pub const fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Sets the choice for all following collectives; `None` lets the backend choose. All ranks
    /// must do the same.
    pub const fn set_choice(&mut self, choice: Option<Choice>) {
        self.choice = choice;
    }

    /// Sets the longest wait for another rank of the launches that follow.
    pub const fn set_longest_wait(&mut self, longest: Duration) {
        self.engine.set_longest_wait(longest);
    }

    /// The choice for a request.
    ///
    /// # Errors
    /// The backend has none, or this communicator does not support it.
    pub fn choice(&self, request: &Request) -> Result<Choice, Error> {
        self.engine.choice(request)
    }

    /// Runs a request on memory given by its addresses: the general form of all collectives but
    /// transfers. Lengths are as for the collective's own method. `scalar` is the factor of a
    /// pre-multiplied sum ([`Element::bits`]).
    ///
    /// # Errors
    /// As for the collectives.
    pub fn run(&mut self, request: &Request, memory: Memory<'_>, scalar: u64) -> Result<(), Error> {
        let request = self.with_choice(request);
        self.expect_collective(&request)?;
        self.engine.launch(&request, memory, scalar)
    }

    /// Enqueues a request on memory of this rank's device, and returns: it runs behind the work of
    /// the device's stream `stream`, and before what that stream gets later. The first request of
    /// its kind and size waits for the other ranks and until earlier ones have ended; a request
    /// waits while the backend's queue is full. A failure of the launch comes from
    /// [`Self::look_after`], which somebody calls until everything has ended. Returns what was
    /// not seen to have ended.
    ///
    /// # Errors
    /// As [`Self::run`]; or the backend has no streams.
    pub fn enqueue(
        &mut self,
        request: &Request,
        memory: Memory<'_>,
        scalar: u64,
        stream: u64,
    ) -> Result<InFlight, Error> {
        let request = self.with_choice(request);
        self.expect_collective(&request)?;
        self.engine.enqueue(&request, memory, scalar, stream)
    }

    /// Registers memory of this rank's device, by its address and bytes, so that collectives reduce
    /// and store it with a multicast of all ranks (NVLS) where it is. All ranks call it together,
    /// in the same order with collectives. A collective uses its buffers where they are if those of
    /// all ranks are at the same place of a window. Waits until what was enqueued has ended.
    /// Returns the window's number.
    ///
    /// # Errors
    /// The memory cannot be registered, on all ranks alike; or a rank failed.
    pub fn register(&mut self, address: u64, bytes: u64) -> Result<u32, Error> {
        self.engine.register((address, bytes))
    }

    /// Ends the registration of a window. All ranks do it in the same order with their
    /// registrations and collectives. Waits until what was enqueued has ended.
    ///
    /// # Errors
    /// There is no such window; or the communicator failed before.
    pub fn deregister(&mut self, window: u32) -> Result<(), Error> {
        self.engine.deregister(window)
    }

    /// Looks after what was enqueued: moves its network data, and ends it if it makes no progress
    /// or another rank failed. Returns what has not ended.
    ///
    /// # Errors
    /// A launch failed, or the communicator did before. Then [`Self::end_early`] is left.
    pub fn look_after(&mut self) -> Result<InFlight, Error> {
        self.engine.look_after()
    }

    /// Tells what was enqueued to end early, after a failure. Returns what has not ended yet.
    pub fn end_early(&mut self) -> InFlight {
        self.engine.end_early()
    }

    pub(crate) fn with_choice(&self, request: &Request) -> Request {
        Request {
            choice: request.choice.or(self.choice),
            ..*request
        }
    }

    /// The backend.
    pub const fn backend(&self) -> &B {
        self.engine.backend()
    }

    /// The inputs of the backend's choice.
    pub fn shape(&self) -> CommunicatorShape {
        self.engine.shape()
    }

    /// Allocates a buffer that other ranks can access; its first contents are unspecified.
    /// Collectives take any memory, but between processes this is the fastest.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn buffer<T: Element>(&self, elements: usize) -> Result<Buffer<T>, Error> {
        let block = self.engine.allocate(elements * size_of::<T>())?;
        Ok(Buffer::new(block, elements))
    }

    /// Checks a length.
    pub(crate) const fn expect(
        collective: Collective,
        buffer: &'static str,
        found: usize,
        expected: usize,
        why: &'static str,
    ) -> Result<(), Error> {
        if found == expected {
            return Ok(());
        }
        Err(Error::Length {
            collective,
            buffer,
            found,
            expected,
            why,
        })
    }

    pub(crate) const fn expect_rank(&self, rank: u32) -> Result<(), Error> {
        if rank < self.ranks {
            return Ok(());
        }
        let ranks = self.ranks;
        Err(Error::NoSuchRank { rank, ranks })
    }

    /// # Errors
    /// The tag is too large.
    pub(crate) fn expect_tag(&self, tag: u32) -> Result<(), Error> {
        if tag <= BoundProgram::COLLECTIVE_TAG {
            return Ok(());
        }
        Err(Error::Unsupported {
            collective: Collective::SendRecv,
            ranks: self.ranks,
            why: format!(
                "tag {tag} is too large, expected at most {}",
                BoundProgram::MOST_TAG
            ),
        })
    }
}
