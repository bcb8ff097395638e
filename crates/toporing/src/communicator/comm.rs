//! A communicator that another program holds.

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

use backend_cpu::{Cpu, Profile, kept};
use bootstrap::UniqueId;
use executor::bootstrap::Bootstrap;
use executor::{Buffer, Communicator, End, Settings, Transport};
use net::{Hosts, MOST_RANKS};

use crate::communicator::call_site;
use crate::communicator::error::{Code, Fault};
use crate::communicator::forks;
use crate::communicator::gpu::{Gpu, Meeting};
use crate::communicator::options::Options;
use crate::communicator::queue::{Call, Job, Queue, Transfer, Work};
use crate::communicator::request::Launch;
use crate::communicator::shared::{Shared, lock};

/// A rank's membership in a communicator.
pub struct Comm {
    /// What its threads share.
    pub shared: Arc<Shared>,
    /// The options, for communicators that are split off.
    pub options: Options,
    /// How this rank reaches each rank; P2P for itself.
    pub transports: Vec<Transport>,
    /// Channels over which collectives may run: those of the plan, if there is one.
    pub channels: u16,
    /// This rank's GPU, if the communicator has GPUs.
    pub(crate) gpu: Option<Gpu>,
    worker: Mutex<Option<JoinHandle<()>>>,
    buffers: Mutex<HashMap<usize, Buffer<u8>>>,
    /// Held during a call. The transfers since `topo_group_start`, if a group is open.
    in_call: Mutex<OpenTransfers>,
    process: u32,
    /// Forks before it was made.
    forks: u32,
}

/// The backend, by the profile that `TOPO_COST_PROFILE` names, or the one that was kept for this
/// machine, or the built-in one. The files are read once.
fn backend() -> Result<Cpu, Fault> {
    static PROFILE: LazyLock<Result<Arc<Profile>, String>> = LazyLock::new(|| {
        let path = |name| {
            std::env::var_os(name)
                .filter(|it| !it.is_empty())
                .map(PathBuf::from)
        };
        let folder = |name| path(name).filter(|it| it.is_absolute());
        let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
        let cache = cache.map(|it| it.join("topo"));
        let found = kept::find(path("TOPO_COST_PROFILE").as_deref(), cache.as_deref());
        let found = found.map_err(|error| format!("TOPO_COST_PROFILE: {error}"))?;
        if let Some(ignored) = found.ignored {
            // A closed standard error cannot be reported anywhere.
            let _ = writeln!(std::io::stderr(), "topo: {ignored}");
        }
        Ok(found.profile)
    });
    match &*PROFILE {
        Ok(profile) => Ok(Cpu::new(Arc::clone(profile))),
        Err(why) => Err(Fault::invalid(why.clone())),
    }
}

/// The transfers of an open group, each with the stream in whose order it runs, if it does.
type OpenTransfers = Option<Vec<(Transfer, Option<u64>)>>;

/// The right to call: one thread at a time has it.
pub struct Calling<'a> {
    /// The transfers of the open group.
    pub(crate) group: MutexGuard<'a, OpenTransfers>,
}

impl Comm {
    /// Joins the other ranks.
    pub fn join(id: &UniqueId, rank: u32, ranks: u32, options: &Options) -> Result<Self, Fault> {
        if rank >= ranks {
            return Err(Fault::invalid(format!(
                "rank {rank} of {ranks} does not exist; ranks are numbered from 0"
            )));
        }
        if ranks > MOST_RANKS {
            return Err(Fault::invalid(format!(
                "{ranks} ranks are too many, expected at most {MOST_RANKS}"
            )));
        }
        let channels = match &options.plan {
            Some(plan) if plan.ranks != ranks => {
                return Err(Fault::invalid(format!(
                    "the plan is for {} ranks, and the communicator has {ranks}; plan the job as it runs: the machine, \
                     its hosts and its GPUs",
                    plan.ranks
                )));
            }
            Some(plan) => plan
                .channels()
                .map_err(|why| Fault::invalid(format!("the plan: {why}")))?,
            None => None,
        };
        let hosts = Hosts::join(options.join(id, rank, ranks))?;
        if let Some(plan) = &options.plan {
            let checked = net::run::channels_of_plan::check_hosts(&plan.hosts, &hosts);
            checked.map_err(|why| Fault::invalid(why.to_string()))?;
        }
        let alarm = hosts.alarm()?;
        let transports = (0..ranks).map(|peer| hosts.transport(peer)).collect();
        let settings = Settings {
            channels: channels.clone(),
            longest_wait: options.longest_wait,
            callers_memory: !options.allocated_buffers,
            ..Settings::default()
        };
        let communicator = Communicator::join(backend()?, Box::new(hosts), &settings)?;
        let usable = communicator.shape().channels;
        let shared = Shared::new(communicator, alarm, options.debug);
        shared.queue().longest_wait = options.longest_wait;
        let mut comm = Self {
            transports,
            channels: usable,
            gpu: None,
            shared: Arc::new(shared),
            // The plan is of these ranks, not of a part of them.
            options: Options {
                plan: None,
                settings: options.all_settings(),
                ..options.clone()
            },
            worker: Mutex::default(),
            buffers: Mutex::default(),
            in_call: Mutex::default(),
            process: std::process::id(),
            forks: forks::count(),
        };
        if let Some(number) = options.gpu {
            let meeting = Meeting {
                launches: comm.options.launches(options.plan.as_deref()),
                rank,
                ranks,
                transports: &comm.transports,
                options: &comm.options,
                channels,
                id: comm.shared_id(0, rank == 0)?,
                gather: &|own| comm.gather(own),
            };
            comm.gpu = Some(Gpu::join(meeting, number)?);
        }
        Ok(comm)
    }

    /// Refuses calls in a child of the process that made the communicator.
    pub fn check_process(&self) -> Result<(), Fault> {
        if self.forks == forks::count() {
            return Ok(());
        }
        let (own, here) = (self.process, std::process::id());
        Err(Fault::new(
            Code::Forked,
            format!(
                "the communicator belongs to process {own}, and this is a child of it, {here}, that was forked later; \
                 make communicators after the fork"
            ),
        ))
    }

    /// Begins a call.
    ///
    /// # Errors
    /// Another thread is in one; or this process was forked.
    pub fn calling(&self) -> Result<Calling<'_>, Fault> {
        self.check_process()?;
        let calling = match self.in_call.try_lock() {
            Ok(calling) => Some(calling),
            Err(TryLockError::Poisoned(calling)) => Some(calling.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        let busy = || {
            Fault::new(
                Code::Busy,
                "another thread is in a call with this communicator; one thread at a time may use it (others may \
                 wait, test and abort), so give each thread a communicator of its own",
            )
        };
        let calling = calling.map(|group| Calling { group });
        calling.ok_or_else(busy)
    }

    /// Waits until no thread is in a call, so that one that was refused may try again.
    pub fn wait_for_callers(&self) {
        drop(lock(&self.in_call));
    }

    /// Runs a collective, behind those that were started: in this thread if nothing else runs.
    pub fn run(&self, launch: Launch) -> Result<Code, Fault> {
        let calling = self.calling()?;
        Self::expect_no_group(&calling)?;
        self.run_work(&calling, Work::Collective(launch))
    }

    /// Starts a collective in the background; returns its number.
    pub fn start(&self, launch: Launch) -> Result<u64, Fault> {
        self.start_work(Work::Collective(launch))
    }

    /// Runs transfers together in this thread, behind everything that was started.
    pub fn run_group(&self, transfers: Vec<Transfer>) -> Result<Code, Fault> {
        transfers.iter().try_for_each(|it| self.check_peer(it))?;
        let calling = self.calling()?;
        Self::expect_no_group(&calling)?;
        self.run_transfers(&calling, transfers)
    }

    /// Starts transfers, which run together in the background; returns their number.
    pub fn start_group(&self, transfers: Vec<Transfer>) -> Result<u64, Fault> {
        transfers.iter().try_for_each(|it| self.check_peer(it))?;
        self.start_work(match transfers[..] {
            [transfer] => Work::Transfer(transfer),
            _ => Work::Group(transfers),
        })
    }

    fn start_work(&self, work: Work) -> Result<u64, Fault> {
        let calling = self.calling()?;
        Self::expect_no_group(&calling)?;
        let mut queue = self.shared.queue();
        let call = self.call(&queue);
        if let Work::Transfer(transfer) = &work
            && self.shared.try_send(&queue, transfer)
        {
            return Ok(queue.push_done());
        }
        self.need_worker(&mut queue)?;
        let number = queue.push(Job { work, call });
        self.shared.announce(&queue);
        Ok(number)
    }

    /// Sends or receives: adds the transfer to the group, or runs it.
    pub fn transfer(&self, transfer: Transfer) -> Result<Code, Fault> {
        check_tag(&transfer)?;
        self.check_peer(&transfer)?;
        let mut calling = self.calling()?;
        if let Some(group) = &mut *calling.group {
            group.push((transfer, None));
            return Ok(Code::Ok);
        }
        self.run_work(&calling, Work::Transfer(transfer))
    }

    /// Starts a transfer; returns its number.
    pub fn start_transfer(&self, transfer: Transfer) -> Result<u64, Fault> {
        check_tag(&transfer)?;
        self.check_peer(&transfer)?;
        self.start_work(Work::Transfer(transfer))
    }

    /// Begins a group of transfers.
    pub fn begin_group(&self) -> Result<Code, Fault> {
        let mut calling = self.calling()?;
        Self::expect_no_group(&calling)?;
        *calling.group = Some(Vec::new());
        Ok(Code::Ok)
    }

    /// Runs the transfers of the group.
    pub fn end_group(&self) -> Result<Code, Fault> {
        let mut calling = self.calling()?;
        let group = calling.group.take();
        let group = group
            .ok_or_else(|| Fault::invalid("topo_group_end without topo_group_start before it"))?;
        let stream = group.first().and_then(|(_, stream)| *stream);
        if group.iter().any(|(_, other)| *other != stream) {
            return Err(Fault::invalid(
                "a group has transfers of host memory, or of one stream; they are left out, and the communicator \
                 stays usable",
            ));
        }
        let transfers: Vec<Transfer> = group.into_iter().map(|(transfer, _)| transfer).collect();
        match stream {
            Some(stream) => self.gpu()?.enqueue_transfers(&transfers, stream),
            None => self.run_transfers(&calling, transfers),
        }
    }

    /// Runs transfers: here, or by the thread beside what it runs.
    fn run_transfers(
        &self,
        calling: &Calling<'_>,
        transfers: Vec<Transfer>,
    ) -> Result<Code, Fault> {
        self.run_work(calling, Work::Group(transfers))
    }

    fn run_work(&self, _: &Calling<'_>, work: Work) -> Result<Code, Fault> {
        let is_open = self.needs_worker(work.transfers());
        let mut queue = self.shared.queue();
        let call = self.call(&queue);
        let job = Job { work, call };
        if queue.is_idle() && !is_open {
            drop(queue);
            return self.shared.run(&job).map(|()| Code::Ok);
        }
        let number = queue.push(job);
        if queue.runner.is_some() {
            self.shared.interrupt();
        }
        drop(queue);
        self.shared.await_job(number, None)
    }

    /// Sets the longest wait for another rank of the calls that follow; `None` is that of the
    /// options.
    pub fn set_longest_wait(&self, longest: Option<Duration>) -> Result<Code, Fault> {
        self.check_process()?;
        self.shared.queue().longest_wait = longest.unwrap_or(self.options.longest_wait);
        Ok(Code::Ok)
    }

    /// Whether transfers never run in the caller's thread.
    pub fn needs_worker(&self, transfers: &[Transfer]) -> bool {
        // Debug mode adds to each transfer, so both ends run alike.
        let is_told = self.shared.debug && !transfers.is_empty();
        is_told || transfers.iter().any(|it| it.end == End::FromAny)
    }

    fn call(&self, queue: &Queue) -> Call {
        Call {
            longest: queue.longest_wait,
            place: call_site::take(self.shared.debug),
        }
    }

    pub(crate) fn check_peer(&self, transfer: &Transfer) -> Result<(), Fault> {
        let ranks = self.shared.ranks;
        match transfer.end {
            End::To(peer) | End::From(peer) if peer >= ranks => {
                return Err(Fault::invalid(format!(
                    "rank {peer} does not exist: the communicator has {ranks} ranks, numbered from 0"
                )));
            }
            End::FromAny if ranks == 1 || transfer.bytes == 0 => {
                return Err(Fault::invalid(
                    "a receive from any rank needs another rank, and at least one byte",
                ));
            }
            End::To(_) | End::From(_) | End::FromAny => {}
        }
        if transfer.memory.is_null() && transfer.bytes > 0 {
            let other = match transfer.end {
                End::To(peer) | End::From(peer) => format!("rank {peer}"),
                End::FromAny => "any rank".to_owned(),
            };
            return Err(Fault::invalid(format!(
                "the buffer of a transfer with {other} is null, expected {} bytes",
                transfer.bytes
            )));
        }
        Ok(())
    }

    /// Refuses calls while a group is open.
    pub(crate) fn expect_no_group(calling: &Calling<'_>) -> Result<(), Fault> {
        if calling.group.is_some() {
            return Err(Fault::invalid(
                "a group is open: until topo_group_end only topo_send and topo_receive may be called",
            ));
        }
        Ok(())
    }

    /// Starts the thread for what is started, if it does not run yet.
    fn need_worker(&self, queue: &mut Queue) -> Result<(), Fault> {
        if queue.has_worker {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name(format!("topo {}", shared.rank));
        let thread = thread.spawn(move || shared.work());
        let thread = thread
            .map_err(|error| Fault::new(Code::System, format!("no thread can start: {error}")))?;
        queue.has_worker = true;
        *lock(&self.worker) = Some(thread);
        Ok(())
    }

    /// Allocates memory that other ranks can access.
    pub fn allocate(&self, bytes: usize) -> Result<*mut u8, Fault> {
        let calling = self.calling()?;
        Self::expect_no_group(&calling)?;
        drop(self.shared.await_idle(self.shared.queue()));
        let mut buffer = lock(&self.shared.running)
            .communicator
            .buffer::<u8>(bytes.max(1))?;
        let address = buffer.as_mut_ptr();
        lock(&self.buffers).insert(address.addr(), buffer);
        Ok(address)
    }

    /// Frees such memory.
    pub fn free(&self, address: *mut u8) -> Result<Code, Fault> {
        let calling = self.calling()?;
        Self::expect_no_group(&calling)?;
        drop(self.shared.await_idle(self.shared.queue()));
        match lock(&self.buffers).remove(&address.addr()) {
            Some(_) => Ok(Code::Ok),
            None => Err(Fault::invalid(
                "the address is not one that topo_alloc of this communicator returned, or it was freed before",
            )),
        }
    }

    /// Makes the communicator fail on all ranks. Any thread may call it.
    pub fn abort(&self) -> Result<Code, Fault> {
        self.check_process()?;
        let why = "topo_comm_abort was called";
        self.shared.abort(why);
        if let Some(gpu) = &self.gpu {
            gpu.abort(bootstrap::Failure::new(self.shared.rank, why.to_owned()));
        }
        Ok(Code::Ok)
    }

    /// Ends what was started, and its thread.
    pub fn finish(&self) -> Result<(), Fault> {
        let mut calling = self.calling()?;
        *calling.group = None;
        if let Some(gpu) = &self.gpu {
            gpu.finish();
        }
        let mut queue = self.shared.queue();
        queue.drains = true;
        self.shared.announce(&queue);
        let mut queue = self.shared.await_idle(queue);
        queue.ends = true;
        self.shared.started.notify_one();
        drop(queue);
        // A task that a waker ends may hold the last communicator: then this is that thread.
        let is_other = |it: &JoinHandle<()>| it.thread().id() != std::thread::current().id();
        if let Some(worker) = lock(&self.worker).take().filter(is_other) {
            let _ = worker.join();
        }
        Ok(())
    }
}

/// Refuses messages with a tag that none can have.
pub(crate) fn check_tag(transfer: &Transfer) -> Result<(), Fault> {
    let (tag, most) = (transfer.tag, Transfer::MOST_TAG);
    if tag <= most {
        return Ok(());
    }
    let text = format!("tag {tag} is too large, expected at most {most}");
    Err(Fault::invalid(text))
}
