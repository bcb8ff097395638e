//! A communicator that another program holds.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use backend_cpu::Cpu;
use bootstrap::UniqueId;
use bootstrap::socket::service::Alarm;
use executor::{Buffer, Communicator, Settings};
use net::Hosts;

use crate::call_site;
use crate::compare;
use crate::error::{Code, Fault};
use crate::options::Options;
use crate::queue::{Call, Job, Queue, Transfer, Work};
use crate::request::Launch;

/// A rank's membership in a communicator.
pub struct Comm {
    /// What its threads share.
    pub shared: Arc<Shared>,
    /// The options, for communicators that are split off.
    pub options: Options,
    worker: Mutex<Option<JoinHandle<()>>>,
    buffers: Mutex<HashMap<usize, Buffer<u8>>>,
    in_call: AtomicBool,
    longest_wait: Mutex<Duration>,
    process: u32,
}

/// What the threads of a communicator share.
pub struct Shared {
    /// The own rank.
    pub rank: u32,
    /// Ranks.
    pub ranks: u32,
    debug: bool,
    communicator: Mutex<Communicator<Cpu>>,
    queue: Mutex<Queue>,
    /// Something was started or is done.
    pub changed: Condvar,
    alarm: Alarm,
    aborted: AtomicBool,
}

/// The right to call: one thread at a time has it.
pub struct Calling<'a>(&'a Comm);

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        self.0.in_call.store(false, Ordering::Release);
    }
}

impl Comm {
    /// Joins the other ranks.
    pub fn join(id: &UniqueId, rank: u32, ranks: u32, options: &Options) -> Result<Self, Fault> {
        if cfg!(panic = "abort") {
            return Err(Fault::new(
                Code::Internal,
                "this library was built so that a defect would end the program; build it with \
                 cargo build -p capi --profile library",
            ));
        }
        if rank >= ranks {
            return Err(Fault::invalid(format!(
                "rank {rank} of {ranks} does not exist; ranks are numbered from 0"
            )));
        }
        let hosts = Hosts::join(options.join(id, rank, ranks))?;
        let alarm = hosts.alarm()?;
        let settings = Settings {
            longest_wait: options.longest_wait,
            callers_memory: !options.allocated_buffers,
            ..Settings::default()
        };
        let communicator = Communicator::join(Cpu::default(), Box::new(hosts), &settings)?;
        Ok(Self {
            shared: Arc::new(Shared {
                rank,
                ranks,
                debug: options.debug,
                communicator: Mutex::new(communicator),
                queue: Mutex::default(),
                changed: Condvar::new(),
                alarm,
                aborted: AtomicBool::new(false),
            }),
            options: options.clone(),
            worker: Mutex::default(),
            buffers: Mutex::default(),
            in_call: AtomicBool::new(false),
            longest_wait: Mutex::new(options.longest_wait),
            process: std::process::id(),
        })
    }

    /// Refuses calls in a child of the process that made the communicator.
    pub fn check_process(&self) -> Result<(), Fault> {
        let (own, here) = (self.process, std::process::id());
        if own == here {
            return Ok(());
        }
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
    /// Another thread is in one, or this process was forked.
    pub fn calling(&self) -> Result<Calling<'_>, Fault> {
        self.check_process()?;
        if self.in_call.swap(true, Ordering::Acquire) {
            return Err(Fault::new(
                Code::Busy,
                "another thread is in a call with this communicator; one thread at a time may use it (others may \
                 wait, test and abort), so give each thread a communicator of its own",
            ));
        }
        Ok(Calling(self))
    }

    /// Runs a collective in this thread, behind everything that was started.
    pub fn run(&self, launch: Launch) -> Result<Code, Fault> {
        let _calling = self.calling()?;
        drop(self.shared.await_idle(self.outside_group()?));
        let work = Work::Collective(launch);
        let call = self.call();
        self.shared.run(&Job { work, call })?;
        Ok(Code::Ok)
    }

    /// Starts a collective in the background; returns its number.
    pub fn start(&self, launch: Launch) -> Result<u64, Fault> {
        self.start_work(Work::Collective(launch))
    }

    /// Runs transfers together in this thread, behind everything that was started.
    pub fn run_group(&self, transfers: Vec<Transfer>) -> Result<Code, Fault> {
        transfers.iter().try_for_each(|it| self.check_peer(it))?;
        let _calling = self.calling()?;
        let queue = self.outside_group()?;
        self.shared.run_transfers(queue, transfers, self.call())?;
        Ok(Code::Ok)
    }

    /// Starts transfers, which run together in the background; returns their number.
    pub fn start_group(&self, transfers: Vec<Transfer>) -> Result<u64, Fault> {
        transfers.iter().try_for_each(|it| self.check_peer(it))?;
        self.start_work(Work::Group(transfers))
    }

    fn start_work(&self, work: Work) -> Result<u64, Fault> {
        let _calling = self.calling()?;
        let mut queue = self.outside_group()?;
        self.need_worker(&mut queue)?;
        let call = self.call();
        let number = queue.push(Job { work, call });
        drop(queue);
        self.shared.changed.notify_all();
        Ok(number)
    }

    /// Sends or receives: adds the transfer to the group, or runs it with those that are held.
    pub fn transfer(&self, transfer: Transfer) -> Result<Code, Fault> {
        self.check_peer(&transfer)?;
        let _calling = self.calling()?;
        let mut queue = self.shared.queue();
        match &mut queue.group {
            Some(group) => group.push(transfer),
            None => self
                .shared
                .run_transfers(queue, vec![transfer], self.call())?,
        }
        Ok(Code::Ok)
    }

    /// Starts a transfer; returns its number.
    pub fn start_transfer(&self, transfer: Transfer) -> Result<u64, Fault> {
        self.check_peer(&transfer)?;
        let _calling = self.calling()?;
        let mut queue = self.outside_group()?;
        self.need_worker(&mut queue)?;
        let call = self.call();
        Ok(queue.hold(transfer, call))
    }

    /// Begins a group of transfers.
    pub fn begin_group(&self) -> Result<Code, Fault> {
        let _calling = self.calling()?;
        self.outside_group()?.group = Some(Vec::new());
        Ok(Code::Ok)
    }

    /// Runs the transfers of the group.
    pub fn end_group(&self) -> Result<Code, Fault> {
        let _calling = self.calling()?;
        let mut queue = self.shared.queue();
        let group = queue.group.take();
        let group = group
            .ok_or_else(|| Fault::invalid("topo_group_end without topo_group_start before it"))?;
        self.shared.run_transfers(queue, group, self.call())?;
        Ok(Code::Ok)
    }

    /// Sets the longest wait for another rank of the calls that follow; `None` is that of the
    /// options.
    pub fn set_longest_wait(&self, longest: Option<Duration>) -> Result<Code, Fault> {
        self.check_process()?;
        *lock(&self.longest_wait) = longest.unwrap_or(self.options.longest_wait);
        Ok(Code::Ok)
    }

    fn call(&self) -> Call {
        Call {
            longest: *lock(&self.longest_wait),
            place: call_site::take(),
        }
    }

    fn check_peer(&self, transfer: &Transfer) -> Result<(), Fault> {
        let (peer, ranks) = (transfer.peer, self.shared.ranks);
        if peer >= ranks {
            return Err(Fault::invalid(format!(
                "rank {peer} does not exist: the communicator has {ranks} ranks, numbered from 0"
            )));
        }
        if transfer.memory.is_null() && transfer.bytes > 0 {
            return Err(Fault::invalid(format!(
                "the buffer of a transfer with rank {peer} is null, expected {} bytes",
                transfer.bytes
            )));
        }
        Ok(())
    }

    /// The queue, if no group is open.
    fn outside_group(&self) -> Result<MutexGuard<'_, Queue>, Fault> {
        let queue = self.shared.queue();
        if queue.group.is_some() {
            return Err(Fault::invalid(
                "a group is open: until topo_group_end only topo_send and topo_receive may be called",
            ));
        }
        Ok(queue)
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
        let _calling = self.calling()?;
        drop(self.shared.await_idle(self.outside_group()?));
        let mut buffer = lock(&self.shared.communicator).buffer::<u8>(bytes.max(1))?;
        let address = buffer.as_mut_ptr();
        lock(&self.buffers).insert(address.addr(), buffer);
        Ok(address)
    }

    /// Frees such memory.
    pub fn free(&self, address: *mut u8) -> Result<Code, Fault> {
        let _calling = self.calling()?;
        drop(self.shared.await_idle(self.outside_group()?));
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
        self.shared.abort("topo_comm_abort was called");
        Ok(Code::Ok)
    }

    /// Ends what was started, and its thread.
    pub fn finish(&self) -> Result<(), Fault> {
        let _calling = self.calling()?;
        let mut queue = self.shared.queue();
        queue.group = None;
        let mut queue = self.shared.await_idle(queue);
        queue.ends = true;
        drop(queue);
        self.shared.changed.notify_all();
        if let Some(worker) = lock(&self.worker).take() {
            let _ = worker.join();
        }
        Ok(())
    }
}

impl Shared {
    /// What was started.
    pub fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    /// Sleeps until something was started or is done, or the time is over.
    pub fn sleep<'a>(
        &self,
        queue: MutexGuard<'a, Queue>,
        longest: Option<Duration>,
    ) -> MutexGuard<'a, Queue> {
        match longest {
            Some(longest) => {
                let woken = self.changed.wait_timeout(queue, longest);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
            None => {
                let woken = self.changed.wait(queue);
                woken.unwrap_or_else(PoisonError::into_inner)
            }
        }
    }

    /// Waits until everything that was started is done, without transfers that a caller took.
    fn await_idle<'a>(&self, mut queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        if queue.release() {
            self.changed.notify_all();
        }
        while !queue.is_idle() {
            queue = self.sleep(queue, None);
        }
        queue
    }

    /// Runs transfers in this thread, together with those that are held.
    fn run_transfers(
        &self,
        mut queue: MutexGuard<'_, Queue>,
        transfers: Vec<Transfer>,
        call: Call,
    ) -> Result<(), Fault> {
        while !queue.is_idle() {
            queue = self.sleep(queue, None);
        }
        let mut all = queue.take_held();
        let last = queue.last();
        drop(queue);
        all.extend(transfers);
        let work = Work::Group(all);
        let done = self.run(&Job { work, call });
        self.queue().finish(last, done.as_ref().err());
        self.changed.notify_all();
        done
    }

    /// Runs what was started, until the communicator ends.
    pub fn work(&self) {
        let mut queue = self.queue();
        loop {
            let Some((last, job)) = queue.pop() else {
                if queue.ends {
                    return;
                }
                queue = self.sleep(queue, None);
                continue;
            };
            drop(queue);
            let done = self.run(&job);
            queue = self.queue();
            queue.finish(last, done.as_ref().err());
            self.changed.notify_all();
        }
    }

    /// Waits for a job until it is done or the time is over. `None` has no limit.
    pub fn await_job(&self, number: u64, longest: Option<Duration>) -> Result<Code, Fault> {
        let until = longest.map(|it| Instant::now() + it);
        let mut queue = self.queue();
        if number == 0 || number > queue.last() {
            return Err(Fault::invalid(format!(
                "work {number} was not started by this communicator"
            )));
        }
        if queue.is_held(number) && queue.release() {
            self.changed.notify_all();
        }
        loop {
            if let Some(ended) = queue.ended(number) {
                return ended.map(|()| Code::Ok);
            }
            let left = until.map(|it| it.saturating_duration_since(Instant::now()));
            if left.is_some_and(|it| it.is_zero()) {
                return Ok(Code::Pending);
            }
            queue = self.sleep(queue, left);
        }
    }

    /// Runs a job. After an error other than of its arguments the communicator has failed, and the
    /// others know.
    pub fn run(&self, job: &Job) -> Result<(), Fault> {
        if self.aborted.load(Ordering::Acquire) {
            return Err(Fault::new(
                Code::Failed,
                "the communicator was aborted; destroy it and make a new one",
            ));
        }
        let mut communicator = lock(&self.communicator);
        let done = catch_unwind(AssertUnwindSafe(|| self.execute(&mut communicator, job)));
        done.unwrap_or_else(|panic| {
            let fault = Fault::panicked(&*panic);
            self.abort(&fault.text);
            Err(fault)
        })
    }

    fn execute(&self, communicator: &mut Communicator<Cpu>, job: &Job) -> Result<(), Fault> {
        communicator.set_longest_wait(job.call.longest)?;
        let place = &job.call.place;
        match &job.work {
            Work::Collective(launch) => {
                if self.debug {
                    compare::all(communicator, &launch.request, place)?;
                }
                Ok(communicator.run(&launch.request, launch.memory(), 0)?)
            }
            Work::Group(transfers) => {
                if self.debug {
                    let compared = compare::transfers(communicator, transfers, place);
                    // The sender would wait for the rest, and must learn why it waits in vain.
                    compared.inspect_err(|fault| self.abort(&fault.text))?;
                }
                let mut group = communicator.group_start();
                for transfer in transfers {
                    let Transfer {
                        bytes, peer, sends, ..
                    } = *transfer;
                    let memory = match bytes {
                        0 => std::ptr::NonNull::dangling().as_ptr(),
                        _ => transfer.memory,
                    };
                    if sends {
                        // SAFETY: the caller lends the memory until the transfer is done.
                        let memory = unsafe { std::slice::from_raw_parts(memory, bytes) };
                        group.send::<u8>(memory, peer)?;
                    } else {
                        // SAFETY: as above, and for it alone.
                        let memory = unsafe { std::slice::from_raw_parts_mut(memory, bytes) };
                        group.receive::<u8>(memory, peer)?;
                    }
                }
                Ok(group.group_end()?)
            }
        }
    }

    /// Makes the communicator fail on all ranks.
    fn abort(&self, why: &str) {
        self.aborted.store(true, Ordering::Release);
        let failure = bootstrap::Failure::new(self.rank, why.to_owned());
        self.alarm.fail(failure);
    }
}

/// Locks, also after a panic: what is inside is checked where it is used.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
