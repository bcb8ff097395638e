//! The state that the threads of a communicator share.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use backend_cpu::Cpu;
use bootstrap::socket::service::Alarm;
use executor::{Attempt, Bell, Communicator, End};

use crate::communicator::at_once::move_short;
use crate::communicator::compare::Told;
use crate::communicator::error::{Code, Fault};
use crate::communicator::open::Open;
use crate::communicator::queue::{Job, Queue, Transfer, Work};

/// What the threads of a communicator share.
pub struct Shared {
    /// The own rank.
    pub rank: u32,
    /// Ranks.
    pub ranks: u32,
    /// Whether calls are compared before they run.
    pub debug: bool,
    /// The state of calls that run. The queue's runner locks it, and so does a thread that runs a
    /// call while nothing is started, or sends a short message.
    pub running: Mutex<Running>,
    /// What wakes the thread that runs what was started.
    pub bell: Bell,
    /// Whether that thread should look at the queue.
    pub news: AtomicBool,
    queue: Mutex<Queue>,
    /// Something is done.
    pub changed: Condvar,
    /// Something was started, or is left, for the background thread.
    pub started: Condvar,
    alarm: Alarm,
    /// Why this rank aborted.
    aborted: OnceLock<String>,
}

/// The communicator and the calls that it runs.
pub struct Running {
    /// The communicator.
    pub communicator: Communicator<Cpu>,
    /// The calls that have begun.
    pub open: Open,
}

impl Shared {
    /// What the threads of this communicator share. `alarm` makes its ranks fail.
    pub fn new(communicator: Communicator<Cpu>, alarm: Alarm, debug: bool) -> Self {
        let (rank, ranks) = (communicator.rank(), communicator.ranks());
        Self {
            rank,
            ranks,
            debug,
            bell: communicator.bell(),
            running: Mutex::new(Running {
                communicator,
                open: Open::new(rank, ranks, debug),
            }),
            news: AtomicBool::new(false),
            queue: Mutex::default(),
            changed: Condvar::new(),
            started: Condvar::new(),
            alarm,
            aborted: OnceLock::new(),
        }
    }

    /// What was started.
    pub fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    /// Waits until everything that was started is done.
    pub fn await_idle<'a>(&'a self, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        let idle = |queue: &mut Queue| Ok(queue.is_idle().then_some(()));
        self.wait_until(queue, None, None, idle).0
    }

    /// Waits for a job until it is done or the time is over. `None` has no limit.
    /// How a job ended is told once.
    ///
    /// # Errors
    /// There is no such job, or its end was told before; or that of the job.
    pub fn await_job(&self, number: u64, longest: Option<Duration>) -> Result<Code, Fault> {
        let look = |queue: &mut Queue| queue.ended(number);
        let found = self.wait_until(self.queue(), longest, Some(number), look).1;
        match found? {
            Some(ended) => ended.map(|()| Code::Ok),
            None => Ok(Code::Pending),
        }
    }

    /// How a job ended, as [`Self::await_job`]; if it is not done, `waker` is woken then.
    ///
    /// # Errors
    /// As [`Self::await_job`].
    pub fn poll_job(&self, number: u64, waker: &Waker) -> Poll<Result<(), Fault>> {
        let mut queue = self.queue();
        let ended = queue.poll(number, waker);
        if ended.is_pending() && queue.runner.is_some() {
            // A thread that runs until its own job is done would not tell.
            self.interrupt();
        }
        ended
    }

    /// Waits until one of the jobs is done, and returns its place in the list with how it ended.
    /// Zeros in the list are no jobs.
    ///
    /// # Errors
    /// There is no job in the list, or as [`Self::await_job`].
    pub fn await_any(&self, numbers: &[u64]) -> Result<(usize, Result<(), Fault>), Fault> {
        let nothing = || {
            Fault::invalid(
                "a wait for any work without a work: the list is empty or has only zeros",
            )
        };
        let jobs = || numbers.iter().enumerate().filter(|(_, it)| **it != 0);
        jobs().next().ok_or_else(nothing)?;
        let look = |queue: &mut Queue| {
            for (at, number) in jobs() {
                if let Some(ended) = queue.ended(*number)? {
                    return Ok(Some((at, ended)));
                }
            }
            Ok(None)
        };
        // Without a limit it ends with something found.
        self.wait_until(self.queue(), None, None, look)
            .1?
            .ok_or_else(nothing)
    }

    /// Runs a job. After an error other than of its arguments the communicator has failed, and the
    /// others know.
    pub fn run(&self, job: &Job) -> Result<(), Fault> {
        let mut running = lock(&self.running);
        self.guard(|| self.execute(&mut running.communicator, job))
    }

    /// Sends a message at once, if it is short, nothing precedes it, and no thread runs what was
    /// started. Returns whether it was sent. The caller may start calls.
    pub fn try_send(&self, queue: &Queue, transfer: &Transfer) -> bool {
        if self.debug || !transfer.sends() || queue.runner.is_some() || !queue.may_pass(transfer) {
            return false;
        }
        let Running { communicator, open } = &mut *lock(&self.running);
        let attempt = self.guard(|| Ok(open.try_send(communicator, transfer)));
        // If it fails, the wait for the transfer fails.
        matches!(attempt, Ok(Attempt::Moved))
    }

    /// Runs something with the communicator, and catches panics.
    pub fn guard<R>(&self, body: impl FnOnce() -> Result<R, Fault>) -> Result<R, Fault> {
        if let Some(why) = self.aborted.get() {
            return Err(Fault::aborted(why));
        }
        let done = catch_unwind(AssertUnwindSafe(body));
        done.unwrap_or_else(|panic| {
            let fault = Fault::panicked(&*panic);
            self.abort(&fault.text);
            Err(fault)
        })
    }

    fn execute(&self, communicator: &mut Communicator<Cpu>, job: &Job) -> Result<(), Fault> {
        communicator.set_longest_wait(job.call.longest);
        match &job.work {
            Work::Collective(launch) => {
                if self.debug {
                    let mut told = Told::new(&launch.request, &job.call.place, self.ranks);
                    let (request, memory) = told.exchange();
                    communicator.run(&request, memory, 0)?;
                    told.compare(self.rank)?;
                }
                Ok(communicator.run(&launch.request, launch.memory(), 0)?)
            }
            Work::Transfer(_) | Work::Group(_) => {
                let transfers = job.work.transfers();
                let left = move_short(communicator, transfers);
                if left.as_ref().is_some_and(Vec::is_empty) {
                    return Ok(());
                }
                let mut group = communicator.group_start();
                for transfer in left.as_deref().unwrap_or(transfers) {
                    let memory = match transfer.bytes {
                        0 => std::ptr::NonNull::dangling().as_ptr(),
                        _ => transfer.memory,
                    };
                    let bytes = transfer.bytes;
                    match transfer.end {
                        End::To(peer) => {
                            // SAFETY: the caller lends the memory until the transfer is done.
                            let memory = unsafe { std::slice::from_raw_parts(memory, bytes) };
                            group.send_tagged::<u8>(memory, peer, transfer.tag)?;
                        }
                        End::From(peer) => {
                            // SAFETY: as above, and for it alone.
                            let memory = unsafe { std::slice::from_raw_parts_mut(memory, bytes) };
                            group.receive_tagged::<u8>(memory, peer, transfer.tag)?;
                            transfer.tell_source(peer);
                        }
                        End::FromAny => {
                            return Err(Fault::new(
                                Code::Internal,
                                "a closed group receives from any rank",
                            ));
                        }
                    }
                }
                Ok(group.group_end()?)
            }
        }
    }

    /// Makes the communicator fail on all ranks.
    pub fn abort(&self, why: &str) {
        // The first reason is the one that the others hear.
        let _ = self.aborted.set(why.to_owned());
        let failure = bootstrap::Failure::new(self.rank, why.to_owned());
        self.alarm.fail(failure);
    }
}

/// Locks, also after a panic: what is inside is checked where it is used.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
