//! A rank's GPU: collectives on its memory, in the order of its streams. A call enqueues one and
//! returns; a thread looks after those that have not ended.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use backend_cuda::{CallersContext, Cuda, presence};
use bootstrap::UniqueId;
use bootstrap::socket::service::Alarm;
use device_runtime::{Kernels, LaunchOptions, MOST_IN_FLIGHT, ProcessRanks};
use executor::backend::InFlight;
use executor::{Communicator, DeviceTransfer, Error, Memory, Settings, Transport};
use net::Hosts;
use program::{Channels, Collective};

use crate::communicator::error::{Code, Fault};
use crate::communicator::options::{Options, free_id};
use crate::communicator::queue::Transfer;
use crate::communicator::request::Launch;
use crate::communicator::shared::lock;

/// Channels of a communicator without a plan; as many as NCCL ever has.
const PLAIN_CHANNELS: usize = 64;

/// Bytes of host memory for buffers, which ranks on GPUs do not use.
const BUFFER_BYTES: usize = 1 << 20;

/// Between two looks at launches, and at those whose network data wait for them.
const LOOK: Duration = Duration::from_millis(1);
const HURRIED_LOOK: Duration = Duration::from_micros(50);

/// A rank's GPU.
pub struct Gpu {
    /// Its place among the GPUs that this process uses for the communicator.
    place: u32,
    /// Kept until this is dropped.
    ranks: Option<Arc<ProcessRanks<Cuda>>>,
    watched: Arc<Watched>,
    watcher: Mutex<Option<JoinHandle<()>>>,
    alarm: Alarm,
    longest: Duration,
}

/// What the thread looks after.
struct Watched {
    state: Mutex<State>,
    changed: Condvar,
    /// Why this rank aborted.
    aborted: OnceLock<String>,
}

/// The communicator, and what it has enqueued.
struct State {
    communicator: Option<Communicator<Kernels<Cuda>>>,
    in_flight: InFlight,
    fault: Option<Fault>,
    ends: bool,
}

impl State {
    /// Looks after what has not ended. After a failure that ends early.
    fn look(&mut self) {
        let Some(communicator) = &mut self.communicator else {
            return;
        };
        if self.fault.is_none() {
            let looked = catch_unwind(AssertUnwindSafe(|| communicator.look_after()));
            match looked {
                Ok(Ok(in_flight)) => {
                    self.in_flight = in_flight;
                    return;
                }
                Ok(Err(error)) => self.fault = Some(error.into()),
                Err(panic) => self.fault = Some(Fault::panicked(&*panic)),
            }
        }
        self.in_flight = communicator.end_early();
    }
}

impl Watched {
    /// Looks after what was enqueued, until the communicator ends.
    fn watch(&self) {
        // The program may capture graphs meanwhile.
        let _context = CallersContext::keep();
        let mut state = lock(&self.state);
        while !state.ends {
            if state.in_flight.launches == 0 {
                let woken = self.changed.wait(state);
                state = woken.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            state.look();
            let nap = match state.in_flight {
                InFlight { launches: 0, .. } => {
                    self.changed.notify_all();
                    continue;
                }
                InFlight { hurries: true, .. } => HURRIED_LOOK,
                InFlight { .. } => LOOK,
            };
            state = self.sleep(state, nap);
        }
        state.communicator = None;
    }

    fn sleep<'a>(&self, state: MutexGuard<'a, State>, longest: Duration) -> MutexGuard<'a, State> {
        let woken = self.changed.wait_timeout(state, longest);
        woken.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Fails if the communicator did.
    fn check(&self, state: &State) -> Result<(), Fault> {
        if let Some(fault) = &state.fault {
            return Err(fault.clone());
        }
        match self.aborted.get() {
            Some(why) => Err(Fault::aborted(why)),
            None => Ok(()),
        }
    }
}

/// A communicator by its id and its ranks of this process.
type Key = (String, Vec<u32>);

/// The GPUs that ranks of this process use together, by communicator.
static OPEN: Mutex<BTreeMap<Key, Weak<ProcessRanks<Cuda>>>> = Mutex::new(BTreeMap::new());

/// A number of this process. A child of it has the same one, and another id of the process.
static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(()));

/// Opens the GPUs of the ranks of this process, `here`. `numbers` has those of all ranks.
fn open(
    id: &str,
    numbers: &[u32],
    here: &[u32],
    launches: LaunchOptions,
) -> Result<Arc<ProcessRanks<Cuda>>, Fault> {
    let mut open = lock(&OPEN);
    open.retain(|_, ranks| ranks.strong_count() > 0);
    let key = (id.to_owned(), here.to_vec());
    if let Some(ranks) = open.get(&key).and_then(Weak::upgrade) {
        return Ok(ranks);
    }
    let system = |error: backend_cuda::Error| Fault::new(Code::System, error.to_string());
    presence::check(presence::LONGEST_START).map_err(system)?;
    let _context = CallersContext::keep();
    let of_rank = |rank: &u32| numbers.get(*rank as usize).copied();
    let mut gpus: Vec<u32> = here.iter().filter_map(of_rank).collect();
    gpus.sort_unstable();
    gpus.dedup();
    let options = backend_cuda::Options::of(gpus.clone(), &launches).map_err(system)?;
    let cuda = Cuda::open(&options).map_err(system)?;
    // Ranks of other processes have no place here.
    let place = |number: &u32| gpus.binary_search(number).unwrap_or(0) as u32;
    let places = numbers.iter().map(place).collect();
    let ranks = ProcessRanks::new(cuda, launches, places);
    open.insert(key, Arc::downgrade(&ranks));
    Ok(ranks)
}

/// Says which rank of its host rank 0 reaches by SHM although no variable says so.
fn tell_fallback(ranks: &ProcessRanks<Cuda>) {
    let reached = ranks.reached();
    let mut all = reached.iter().filter(|it| it.rank == 0);
    let fallen_back = all.find_map(|it| Some((it.peer, it.fallen_back.as_ref()?)));
    if let Some((peer, why)) = fallen_back.filter(|(_, why)| !why.contains("_DISABLE")) {
        eprintln!("topo: fallback: SHM instead of P2P to rank {peer}: {why}");
    }
}

/// Gathers numbers of all ranks.
pub type Gather<'a> = dyn Fn(&[u64]) -> Result<Vec<u64>, Fault> + 'a;

/// What a rank needs to join the GPUs of the others.
pub struct Meeting<'a> {
    /// The own rank.
    pub rank: u32,
    /// Ranks.
    pub ranks: u32,
    /// How this rank reaches each rank.
    pub transports: &'a [Transport],
    /// The options.
    pub options: &'a Options,
    /// The channels of the plan, if there is one.
    pub channels: Option<Channels>,
    /// How kernels are launched.
    pub launches: LaunchOptions,
    /// The id of the communicator of the GPUs, which rank 0 made.
    pub id: UniqueId,
    /// Gathers numbers of all ranks, in rank order. All ranks call it together.
    pub gather: &'a Gather<'a>,
}

impl Gpu {
    /// Joins the GPUs of all ranks of a communicator, which call it together. `number` is the
    /// driver's number of this rank's GPU.
    ///
    /// # Errors
    /// A rank cannot use its GPU, or another rank failed.
    pub fn join(meeting: Meeting<'_>, number: u32) -> Result<Self, Fault> {
        let Meeting {
            rank,
            transports,
            gather,
            ref id,
            ref launches,
            ..
        } = meeting;
        let numbers = gather(&[number.into()])?;
        let number = |it: &u64| u32::try_from(*it).unwrap_or(u32::MAX);
        let numbers: Vec<u32> = numbers.iter().map(number).collect();
        let process = [*PROCESS, u64::from(std::process::id())];
        let processes = gather(&process)?;
        let here = (0..).zip(processes.chunks(2)).zip(transports);
        let here = here.filter(|((_, it), by)| *it == process && **by != Transport::Net);
        let here: Vec<u32> = here.map(|((rank, _), _)| rank).collect();
        let opened = open(&id.to_string(), &numbers, &here, launches.clone());
        let have = gather(&[u64::from(opened.is_ok())])?;
        let lacks = have.iter().position(|it| *it == 0);
        let process_ranks = match (opened, lacks) {
            (Ok(opened), None) => opened,
            (opened, lacks) => {
                if rank == 0 {
                    free_id(id)?;
                }
                opened?;
                let other = lacks.unwrap_or_default();
                return Err(Fault::new(
                    Code::Failed,
                    format!("rank {other} cannot use its GPU; its error says why"),
                ));
            }
        };
        Self::join_ranks(meeting, process_ranks, here)
    }

    fn join_ranks(
        meeting: Meeting<'_>,
        process_ranks: Arc<ProcessRanks<Cuda>>,
        mut here: Vec<u32>,
    ) -> Result<Self, Fault> {
        let _context = CallersContext::keep();
        let Meeting {
            rank,
            ranks,
            options,
            channels,
            id,
            ..
        } = meeting;
        let mut hosts = Hosts::join(net::Options {
            share_memory: process_ranks.options.shm,
            ..options.join(&id, rank, ranks)
        })?;
        here.retain(|other| *other != rank);
        hosts.set_threads(here);
        let alarm = hosts.alarm()?;
        let channels = match channels {
            Some(channels) => channels,
            None => Channels::plain(ranks, PLAIN_CHANNELS)
                .map_err(|error| Fault::invalid(error.to_string()))?,
        };
        let settings = Settings {
            channels: Some(channels),
            longest_wait: options.longest_wait,
            buffer_bytes: Some(BUFFER_BYTES),
            ..Settings::default()
        };
        let place = process_ranks.device(rank);
        process_ranks
            .driver
            .reserve(place, MOST_IN_FLIGHT)
            .map_err(|why| Fault::new(Code::System, why))?;
        let kernels = Kernels::new(Arc::clone(&process_ranks), rank);
        let communicator = Communicator::join(kernels, Box::new(hosts), &settings)?;
        if rank == 0 {
            tell_fallback(&process_ranks);
        }
        let watched = Arc::new(Watched {
            state: Mutex::new(State {
                communicator: Some(communicator),
                in_flight: InFlight::default(),
                fault: None,
                ends: false,
            }),
            changed: Condvar::new(),
            aborted: OnceLock::new(),
        });
        let own = Arc::clone(&watched);
        let watcher = std::thread::Builder::new().name(format!("topo GPU {rank}"));
        let watcher = watcher.spawn(move || own.watch());
        let watcher = watcher
            .map_err(|error| Fault::new(Code::System, format!("no thread can start: {error}")))?;
        Ok(Self {
            place,
            ranks: Some(process_ranks),
            watched,
            watcher: Mutex::new(Some(watcher)),
            alarm,
            longest: options.longest_wait,
        })
    }

    /// Enqueues a collective behind the work of a stream of the GPU.
    ///
    /// # Errors
    /// The stream or a buffer cannot be used; or the communicator has failed.
    pub fn enqueue(&self, launch: &Launch, stream: u64) -> Result<Code, Fault> {
        let memory = launch.memory();
        let what = launch.request.collective;
        self.expect_usable(what, stream, &memory)?;
        self.enqueue_by(|it| it.enqueue(&launch.request, memory, 0, stream))
    }

    /// Enqueues transfers, which run together, behind the work of a stream of the GPU.
    ///
    /// # Errors
    /// As [`Self::enqueue`].
    pub fn enqueue_transfers(&self, transfers: &[Transfer], stream: u64) -> Result<Code, Fault> {
        let lend = |it: &Transfer| DeviceTransfer {
            end: it.end(),
            tag: it.tag(),
            memory: it.lend(),
        };
        let used: Vec<DeviceTransfer<'_>> = transfers.iter().map(lend).collect();
        for transfer in &used {
            self.expect_usable(Collective::SendRecv, stream, &transfer.memory)?;
        }
        self.enqueue_by(|it| it.enqueue_transfers(used, stream))
    }

    /// Refuses a stream or memory that cannot be used, or a communicator that has failed.
    fn expect_usable(
        &self,
        what: Collective,
        stream: u64,
        memory: &Memory<'_>,
    ) -> Result<(), Fault> {
        let _context = CallersContext::keep();
        self.watched.check(&lock(&self.watched.state))?;
        let cuda = self.ranks.as_ref().map(|it| &it.driver);
        let check = |it: &Cuda| it.check_in_order(self.place, stream, memory);
        let checked = cuda.map_or(Ok(()), check);
        checked.map_err(|why| Fault::invalid(format!("{what}: {why}")))
    }

    /// Registers memory of the GPU by its address and bytes. Returns the window's number.
    ///
    /// # Errors
    /// It cannot be registered; or the communicator has failed.
    pub fn register(&self, address: u64, bytes: u64) -> Result<u32, Fault> {
        self.run(|it, _| it.register(address, bytes))
    }

    /// Ends a registration.
    ///
    /// # Errors
    /// There is no such window; or the communicator has failed.
    pub fn deregister(&self, window: u32) -> Result<(), Fault> {
        self.run(|it, _| it.deregister(window))
    }

    fn enqueue_by(
        &self,
        enqueue: impl FnOnce(&mut Communicator<Kernels<Cuda>>) -> Result<InFlight, Error>,
    ) -> Result<Code, Fault> {
        self.run(|it, in_flight| {
            let was_idle = in_flight.launches == 0;
            *in_flight = enqueue(it)?;
            // Otherwise the watcher looks again soon.
            if was_idle || in_flight.hurries {
                self.watched.changed.notify_all();
            }
            Ok(Code::Ok)
        })
    }

    /// Runs a call of the communicator, which knows what has not ended.
    fn run<T>(
        &self,
        call: impl FnOnce(&mut Communicator<Kernels<Cuda>>, &mut InFlight) -> Result<T, Error>,
    ) -> Result<T, Fault> {
        let _context = CallersContext::keep();
        let mut state = lock(&self.watched.state);
        self.watched.check(&state)?;
        let State {
            communicator: Some(communicator),
            in_flight,
            fault,
            ..
        } = &mut *state
        else {
            return Err(Fault::invalid("the communicator has ended"));
        };
        let called = call(communicator, in_flight).map_err(Fault::from);
        let ranks = self.ranks.as_ref().filter(|_| communicator.rank() == 0);
        if let Some(why) = ranks.and_then(|it| it.take_without_multicast()) {
            eprintln!("topo: fallback: no NVLS: {why}");
        }
        if let Err(why) = &called {
            // Errors of arguments leave it usable.
            if communicator.look_after().is_err() {
                *fault = Some(why.clone());
            }
            state.look();
            self.watched.changed.notify_all();
        }
        called
    }

    /// Whether everything that was enqueued has ended.
    ///
    /// # Errors
    /// The communicator has failed.
    pub fn query(&self) -> Result<Code, Fault> {
        let _context = CallersContext::keep();
        let mut state = lock(&self.watched.state);
        if state.in_flight.launches > 0 {
            state.look();
        }
        self.watched.check(&state)?;
        Ok(match state.in_flight.launches {
            0 => Code::Ok,
            _ => Code::Pending,
        })
    }

    /// Makes the communicator fail on all ranks.
    pub fn abort(&self, failure: bootstrap::Failure) {
        let _ = self.watched.aborted.set(failure.what.clone());
        self.alarm.fail(failure);
    }

    /// Waits until what was enqueued has ended, as long as for another rank at most, and leaves the
    /// other ranks.
    pub fn finish(&self) {
        let until = Instant::now() + self.longest;
        let mut state = lock(&self.watched.state);
        while state.in_flight.launches > 0 && Instant::now() < until {
            state = self.watched.sleep(state, LOOK);
        }
        state.ends = true;
        drop(state);
        self.watched.changed.notify_all();
        if let Some(watcher) = lock(&self.watcher).take() {
            let _ = watcher.join();
        }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        let _context = CallersContext::keep();
        self.ranks = None;
        lock(&self.watched.state).ends = true;
        self.watched.changed.notify_all();
    }
}
