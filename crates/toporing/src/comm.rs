//! A rank's membership in a communicator.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Duration;

use crate::communicator::{
    Arguments, Code, Collective, Fault, Options, Transfer, Transport, UniqueId, hold_root,
};
use bootstrap::rendezvous::{JobOptions, launcher, meeting};
use executor::{Element, End, Reduction};

use crate::calls::{Call, CheckedCall, calls};

/// A rank's membership in a communicator. One thread at a time may call; dropped, it waits for what
/// was started.
#[derive(Clone)]
pub struct Comm(pub(crate) Arc<Member>);

/// A membership that ends with its last holder.
pub(crate) struct Member(pub(crate) ManuallyDrop<crate::communicator::Comm>);

impl Drop for Member {
    fn drop(&mut self) {
        if self.0.check_process().is_err() {
            // A child of the process that joined has none of its threads, and must not use its
            // connections.
            return;
        }
        // What is left failed, and its callers know.
        let _ = self.0.finish();
        // SAFETY: nobody uses it after this.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}

impl std::fmt::Debug for Comm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (rank, ranks) = (self.rank(), self.ranks());
        f.debug_struct("Comm")
            .field("rank", &rank)
            .field("ranks", &ranks)
            .finish()
    }
}

/// Joining.
impl Comm {
    /// Makes an id for a new communicator. This process listens for its ranks until one of them
    /// joins here; the id goes to the others by any way that strangers cannot read.
    ///
    /// # Errors
    /// No network interface is up, or the system has no socket left.
    pub fn new_id() -> Result<UniqueId, Fault> {
        Options::default().new_id()
    }

    /// Joins the other ranks.
    ///
    /// # Errors
    /// The ranks do not meet within the time of the options, or differ in options.
    pub fn join(id: &UniqueId, rank: u32, ranks: u32, options: &Options) -> Result<Self, Fault> {
        let joined = crate::communicator::Comm::join(id, rank, ranks, options)?;
        Ok(Self(Arc::new(Member(ManuallyDrop::new(joined)))))
    }

    /// Joins as the rank that a launcher started: torchrun, Open MPI, MPICH, srun, Kubernetes, or
    /// variables that are set by hand (`RANK`, `WORLD_SIZE`, and `TOPO_ID` or `TOPO_RENDEZVOUS`).
    /// Without a launcher this rank is the only one. Where ranks meet at an address, set the same
    /// `TOPO_SECRET` for all of them on a network that strangers use too.
    ///
    /// # Errors
    /// As [`Self::join`]; or the variables do not say where ranks meet.
    pub fn of_launcher(options: &Options) -> Result<Self, Fault> {
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        });
        let variables = variables.collect();
        let given = JobOptions::default();
        let parent = std::os::unix::process::parent_id();
        let wrong = |why: String| Fault::new(Code::Invalid, why);
        let launched = launcher::detect(&given, &variables, parent);
        let Some(launched) = launched.map_err(|error| wrong(format!("{error:#}")))? else {
            return Self::join(&options.new_id()?, 0, 1, options);
        };
        let (interfaces, longest) = (options.interfaces(), options.join);
        let found = meeting::find(&given, &variables, &launched, &interfaces, longest);
        let found = found.map_err(|error| wrong(format!("{error:#}")))?;
        for (place, root) in found.roots {
            hold_root(&found.id, place, root);
        }
        let joined = Self::join(&found.id, launched.rank, launched.world, options);
        if let Some(file) = &found.file {
            // All have read it, or never will.
            file.remove();
        }
        joined
    }

    /// Runs `work` on ranks that are threads of this process, and returns what each returned.
    ///
    /// # Errors
    /// The first error of a rank, rather than one of a rank that learned of it ([`Code::Failed`]);
    /// one that panicked has [`Code::Internal`].
    pub fn on_threads<R: Send>(
        ranks: u32,
        work: impl Fn(&Self) -> Result<R, Fault> + Sync,
    ) -> Result<Vec<R>, Fault> {
        let id = Self::new_id()?;
        let (id, work) = (&id, &work);
        let on_thread = move |rank| work(&Self::join(id, rank, ranks, &Options::default())?);
        let results: Vec<Result<R, Fault>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..ranks)
                .map(|rank| scope.spawn(move || on_thread(rank)))
                .collect();
            let joined = threads.into_iter().map(|thread| {
                let done = thread.join();
                done.unwrap_or_else(|panic| Err(Fault::panicked(&*panic)))
            });
            joined.collect()
        });
        let failed = results.iter().filter_map(|it| it.as_ref().err());
        match failed.min_by_key(|fault| fault.code == Code::Failed) {
            Some(fault) => Err(fault.clone()),
            None => results.into_iter().collect(),
        }
    }

    /// The communicator of the ranks with this color, ordered by `order` and then by rank; `None`
    /// for a negative color. All ranks call it.
    ///
    /// # Errors
    /// As [`Self::join`].
    pub fn split(&self, color: i32, order: i32) -> Result<Option<Self>, Fault> {
        let split = self.0.0.split(color, order)?;
        Ok(split.map(|it| Self(Arc::new(Member(ManuallyDrop::new(it))))))
    }
}

/// Facts, and the end.
impl Comm {
    /// The own rank.
    pub fn rank(&self) -> u32 {
        self.0.0.shared.rank
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.0.0.shared.ranks
    }

    /// How this rank reaches each rank: in its memory, that of its host, or over the network.
    pub fn transports(&self) -> &[Transport] {
        &self.0.0.transports
    }

    /// Channels over which collectives may run: those of the plan, if there is one.
    pub fn channels(&self) -> u16 {
        self.0.0.channels
    }

    /// Makes the communicator fail on all ranks. Any thread may call it.
    ///
    /// # Errors
    /// This process is a fork of the one that joined.
    pub fn abort(&self) -> Result<(), Fault> {
        self.0.0.abort().map(drop)
    }

    /// Sets the longest wait for another rank in the calls that follow.
    ///
    /// # Errors
    /// This process is a fork of the one that joined.
    pub fn set_longest_wait(&self, longest: Duration) -> Result<(), Fault> {
        self.0.0.set_longest_wait(Some(longest)).map(drop)
    }
}

/// Collectives on memory of a GPU ([`Options::gpu`]).
impl Comm {
    /// Enqueues a collective on memory of this rank's GPU behind the work of its stream `stream`,
    /// the driver's handle, and before what the stream gets later. It waits on the host the first
    /// time of each kind and size, for the other ranks and for collectives before it, and while 64
    /// have not ended.
    ///
    /// # Errors
    /// The communicator has no GPU or has failed, or the stream or a buffer cannot be used.
    ///
    /// # Safety
    /// The buffers are as long as the collective needs. Until the stream has passed it, nobody else
    /// writes to the input or uses the output. `stream` is a stream of the GPU.
    pub unsafe fn run_on(&self, arguments: &Arguments, stream: u64) -> Result<(), Fault> {
        // SAFETY: the caller says so.
        let launch = unsafe { arguments.read(self.rank(), self.ranks()) }?;
        self.0.0.run_on(&launch, stream).map(drop)
    }

    /// Enqueues transfers with other ranks on memory of this rank's GPU, as [`Self::run_on`]. They
    /// run together, so no order of them waits for each other; those between two ranks match in
    /// order.
    ///
    /// # Errors
    /// As [`Self::run_on`]; or there is no such rank.
    ///
    /// # Safety
    /// The memory of the transfers is lent until the stream has passed them ([`Transfer::new`]).
    /// `stream` is a stream of the GPU.
    pub unsafe fn transfer_on(&self, transfers: &[Transfer], stream: u64) -> Result<(), Fault> {
        self.0.0.run_group_on(transfers, stream).map(drop)
    }

    /// Registers memory of this rank's GPU, by its address and bytes. All ranks call it together,
    /// in the same order with collectives, with as many bytes, which begin at the same distance
    /// from a multiple of the memory's granularity. Collectives whose buffers are at the same place
    /// of a window on all ranks then run where they are, reduced and stored by the switch (NVLS).
    /// Returns the window's number.
    ///
    /// The memory is virtual memory whose handles other processes can open: of `cuMemCreate` or
    /// `ncclMemAlloc`. Once it is freed, its window is never used again, and keeps the GPU's memory
    /// until it ends.
    ///
    /// # Errors
    /// The memory cannot be registered, on all ranks alike, and the communicator stays usable; or
    /// it has failed or has no GPU.
    pub fn register(&self, address: u64, bytes: u64) -> Result<u32, Fault> {
        self.0.0.register(address, bytes)
    }

    /// Ends a registration. All ranks do it in the same order.
    ///
    /// # Errors
    /// There is no such window; or the communicator has failed or has no GPU.
    pub fn deregister(&self, window: u32) -> Result<(), Fault> {
        self.0.0.deregister(window).map(drop)
    }

    /// Whether everything that [`Self::run_on`] and [`Self::transfer_on`] enqueued has ended. Any
    /// thread may ask.
    ///
    /// # Errors
    /// The communicator has no GPU or has failed: then outputs are undefined.
    pub fn has_ended(&self) -> Result<bool, Fault> {
        Ok(self.0.0.query()? == Code::Ok)
    }
}

/// Calls that return when they are done.
impl Comm {
    calls!(self, [&], [&mut]);

    fn call(&self, call: Call<'_>) -> Result<(), Fault> {
        match call.check(self.rank(), self.ranks())? {
            CheckedCall::Collective(launch) => self.0.0.run(launch).map(drop),
            CheckedCall::Transfers(transfers) => self.0.0.run_group(transfers).map(drop),
        }
    }

    /// Waits until all ranks have called it.
    ///
    /// # Errors
    /// A rank failed, left, or waited too long.
    pub fn barrier(&self) -> Result<(), Fault> {
        self.all_reduce(&mut [0_u8], Reduction::Sum)
    }

    /// Receives from any rank; returns which one sent.
    ///
    /// # Errors
    /// A rank failed, left, or waited too long; the message has another length.
    pub fn receive_any<T: Element>(&self, buffer: &mut [T], tag: u32) -> Result<u32, Fault> {
        let mut source = u32::MAX;
        self.call(Call::receive(buffer, End::FromAny, tag, Some(&mut source)))?;
        Ok(source)
    }
}
