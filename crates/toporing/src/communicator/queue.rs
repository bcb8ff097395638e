//! Work that was started and is not done. A thread runs collectives in order, and transfers beside
//! them and beside each other: two ranks that both start a send and then a receive would wait for
//! each other if it ran them one by one.

use std::collections::VecDeque;
use std::ptr::{null, null_mut};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use executor::{End, Memory};
use program::BoundProgram;
use rustc_hash::FxHashMap;

use crate::communicator::error::Fault;
use crate::communicator::request::Launch;

/// Most jobs among which short messages are moved at once: each is compared with all before it.
pub const MOST_COMPARED: usize = 16;

/// Most messages that are sent between two turns while other jobs are not done.
const MOST_PASSED: usize = 16;

/// A transfer between this rank and another one, on memory that its caller lends.
#[derive(Debug, Clone, Copy)]
pub struct Transfer {
    /// The memory that is sent or written.
    pub(crate) memory: *mut u8,
    /// Its length.
    pub(crate) bytes: usize,
    /// The other end.
    pub(crate) end: End,
    /// Transfers between two ranks match in order within a tag: that of a message, at most
    /// [`Self::MOST_TAG`], or [`Self::COLLECTIVE_TAG`].
    pub(crate) tag: u32,
    /// Where the number of the other rank goes when the transfer is done; may be null.
    pub(crate) source: *mut u32,
}

impl Transfer {
    /// A transfer of `bytes` bytes at `memory`. If it receives, the number of the other rank goes
    /// to `source`, which may be null.
    ///
    /// # Safety
    /// Until every use of the transfer and of its copies has ended, the memory is readable if it is
    /// sent, and writable and used by nobody else if it receives; so is `source`.
    pub const unsafe fn new(
        end: End,
        tag: u32,
        (memory, bytes): (*mut u8, usize),
        source: *mut u32,
    ) -> Self {
        Self {
            memory,
            bytes,
            end,
            tag,
            source,
        }
    }

    /// The other end.
    pub const fn end(&self) -> End {
        self.end
    }

    /// The tag.
    pub const fn tag(&self) -> u32 {
        self.tag
    }

    /// Length of the message, bytes.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The most that the tag of a message can be.
    pub const MOST_TAG: u32 = BoundProgram::MOST_TAG;

    /// The tag of transfers that are parts of a collective, which match no message.
    pub const COLLECTIVE_TAG: u32 = BoundProgram::COLLECTIVE_TAG;

    /// Whether this rank sends.
    pub const fn sends(&self) -> bool {
        matches!(self.end, End::To(_))
    }

    /// Whether the message of this transfer may be that of another one.
    pub(crate) fn shares_messages(&self, other: &Self) -> bool {
        self.tag == other.tag && self.end.shares_messages(other.end)
    }

    /// Its memory for the runtime.
    pub(crate) fn lend(&self) -> Memory<'static> {
        let (input, output) = match self.sends() {
            true => ((self.memory.cast_const(), self.bytes), (null_mut(), 0)),
            false => ((null(), 0), (self.memory, self.bytes)),
        };
        // SAFETY: it is lent until the transfer has ended (`new`, `Exchange::read`), or belongs to
        // the part that runs it (headers).
        unsafe { Memory::at(input.0, input.1, output.0, output.1) }
    }

    /// Tells the caller from which rank it received. The transfer has not ended before.
    pub(crate) fn tell_source(&self, rank: u32) {
        if !self.sends() && !self.source.is_null() {
            // SAFETY: it is writable until the transfer has ended (`new`).
            unsafe { self.source.write(rank) };
        }
    }
}

// SAFETY: the memory is lent to any thread that runs the transfer (`new`).
unsafe impl Send for Transfer {}

/// How one call runs.
#[derive(Debug, Clone)]
pub struct Call {
    /// Longest wait for another rank.
    pub longest: Duration,
    /// Where the caller calls; empty if that is unknown.
    pub place: String,
}

/// What runs at once, for one call.
#[derive(Debug)]
pub struct Job {
    /// What runs.
    pub work: Work,
    /// For which call.
    pub call: Call,
}

/// What runs at once.
#[derive(Debug)]
pub enum Work {
    /// A collective.
    Collective(Launch),
    /// A transfer.
    Transfer(Transfer),
    /// Transfers.
    Group(Vec<Transfer>),
}

impl Work {
    /// Its transfers.
    pub fn transfers(&self) -> &[Transfer] {
        match self {
            Self::Collective(_) => &[],
            Self::Transfer(transfer) => std::slice::from_ref(transfer),
            Self::Group(transfers) => transfers,
        }
    }
}

/// The end of a job that no caller knows.
#[derive(Debug)]
enum Ending {
    /// It is not done.
    Awaited,
    /// It is not done, and nobody will ask.
    Unwanted,
    /// It is done.
    Done(Result<(), Fault>),
}

/// A thread that runs what was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runner {
    /// One that waits for some of it.
    Waiting,
    /// The background thread.
    Background,
}

/// What was started.
#[derive(Debug, Default)]
pub struct Queue {
    /// The last number given out.
    started: u64,
    /// How many are not done.
    open: usize,
    /// By number, those whose end no caller knows.
    untold: FxHashMap<u64, Ending>,
    /// By number: the waker of the task that waits for a job.
    wakers: FxHashMap<u64, Waker>,
    /// Wakers of jobs that are done.
    woken: Vec<Waker>,
    /// Jobs that have not begun, with their numbers.
    jobs: VecDeque<(u64, Job)>,
    /// Longest wait for another rank of the calls that follow.
    pub longest_wait: Duration,
    /// The thread that has the turn to run what was started.
    pub runner: Option<Runner>,
    /// How many turns there were.
    pub turns: u64,
    /// Messages sent since the last turn while other jobs were not done.
    passed: usize,
    /// Whether the last turn left jobs that wait for other ranks or have not begun.
    is_left: bool,
    /// When the first transfer with the own rank that has no other end has waited too long.
    pub self_deadline: Option<Instant>,
    /// Threads that wait for something, whether they run it or sleep.
    pub waiting: usize,
    /// Those of them that sleep.
    pub sleeping: usize,
    /// Whether the background thread will look soon by itself.
    pub is_watched: bool,
    /// Whether the background thread exists.
    pub has_worker: bool,
    /// Whether transfers without another end should time out.
    pub drains: bool,
    /// Whether the thread should end when nothing is left.
    pub ends: bool,
}

impl Queue {
    /// Adds a job behind those that were started before. Returns its number.
    pub fn push(&mut self, job: Job) -> u64 {
        self.started += 1;
        self.open += 1;
        self.untold.insert(self.started, Ending::Awaited);
        self.jobs.push_back((self.started, job));
        self.started
    }

    /// Adds a job that is done. Returns its number.
    pub fn push_done(&mut self) -> u64 {
        self.started += 1;
        self.passed += usize::from(!self.is_idle());
        self.untold.insert(self.started, Ending::Done(Ok(())));
        self.started
    }

    /// Whether a message may be sent without a turn: no job that has not begun precedes it, there
    /// are few of them, and few messages passed other jobs since the last turn. A caller that only
    /// sends would never run those.
    pub fn may_pass(&self, transfer: &Transfer) -> bool {
        let mut earlier = self.jobs.iter().flat_map(|(_, job)| job.work.transfers());
        let are_few = self.jobs.len() <= MOST_COMPARED && self.passed < MOST_PASSED;
        are_few && !earlier.any(|it| it.shares_messages(transfer))
    }

    /// Ends a turn. `is_left` says whether it left jobs that wait for other ranks or have not
    /// begun.
    pub fn end_turn(&mut self, is_left: bool) {
        self.runner = None;
        self.turns += 1;
        self.passed = 0;
        self.is_left = is_left;
    }

    /// Whether nothing is left.
    pub fn is_idle(&self) -> bool {
        self.open == 0
    }

    /// Marks a job as done.
    pub fn finish(&mut self, number: u64, fault: Option<&Fault>) {
        match self.untold.get_mut(&number) {
            Some(ending @ Ending::Awaited) => {
                *ending = Ending::Done(fault.map_or(Ok(()), |it| Err(it.clone())));
            }
            Some(Ending::Unwanted) => drop(self.untold.remove(&number)),
            Some(Ending::Done(_)) | None => return,
        }
        self.open -= 1;
        self.woken.extend(self.wakers.remove(&number));
    }

    /// How a job ended, as [`Self::ended`]; if it is not done, `waker` is woken then.
    ///
    /// # Errors
    /// As [`Self::ended`].
    pub fn poll(&mut self, number: u64, waker: &Waker) -> Poll<Result<(), Fault>> {
        match self.ended(number) {
            Ok(Some(done)) => Poll::Ready(done),
            Ok(None) => {
                self.wakers.insert(number, waker.clone());
                Poll::Pending
            }
            Err(fault) => Poll::Ready(Err(fault)),
        }
    }

    /// Whether tasks wait for jobs, and not threads.
    pub fn has_wakers(&self) -> bool {
        !self.wakers.is_empty()
    }

    /// The wakers of jobs that are done. The queue is not locked while they run: they may poll.
    pub fn take_woken(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.woken)
    }

    /// Forgets how a job ends: nobody will ask.
    pub fn forget(&mut self, number: u64) {
        match self.untold.get_mut(&number) {
            Some(Ending::Done(_)) => drop(self.untold.remove(&number)),
            Some(ending) => *ending = Ending::Unwanted,
            None => {}
        }
    }

    /// How a job ended, if it is done. That is told once.
    ///
    /// # Errors
    /// There is no such job, or its end was told before.
    pub fn ended(&mut self, number: u64) -> Result<Option<Result<(), Fault>>, Fault> {
        match self.untold.get(&number) {
            Some(Ending::Done(_)) => {}
            Some(Ending::Awaited | Ending::Unwanted) => return Ok(None),
            None if number == 0 || number > self.started => {
                return Err(Fault::invalid(format!(
                    "work {number} was not started by this communicator"
                )));
            }
            None => {
                return Err(Fault::invalid(format!(
                    "work {number} is done, and an earlier wait or test said so; each work is waited for once"
                )));
            }
        }
        Ok(match self.untold.remove(&number) {
            Some(Ending::Done(done)) => Some(done),
            _ => None,
        })
    }

    /// Moves the jobs that have not begun, with their numbers, to the end of a list.
    pub fn take_jobs(&mut self, to: &mut VecDeque<(u64, Job)>) {
        match to.is_empty() {
            true => std::mem::swap(&mut self.jobs, to),
            false => to.append(&mut self.jobs),
        }
    }

    /// Whether a thread should take a turn: none has it, and there is something to run.
    pub fn has_work(&self) -> bool {
        let waited = |it| self.drains || it <= Instant::now();
        let waited = self.self_deadline.is_some_and(waited);
        self.runner.is_none() && (self.is_left || !self.jobs.is_empty() || waited)
    }

    /// The number that was given out last, and how many turns there were.
    pub const fn look(&self) -> (u64, u64) {
        (self.started, self.turns)
    }

    /// Whether nobody who waits takes a turn for what was there at an earlier look.
    pub fn is_due(&self, (started, turns): (u64, u64)) -> bool {
        let is_old = match self.jobs.front() {
            Some((first, _)) => *first <= started,
            None => turns == self.turns,
        };
        self.waiting == 0 && is_old && self.has_work()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> Call {
        Call {
            longest: Duration::from_secs(1),
            place: String::new(),
        }
    }

    #[test]
    fn jobs_end_in_any_order_and_an_error_is_told_once() {
        let mut queue = Queue::default();
        let group = || Job {
            work: Work::Group(Vec::new()),
            call: call(),
        };
        let numbers = [
            queue.push(group()),
            queue.push(group()),
            queue.push(group()),
        ];
        assert_eq!(numbers, [1, 2, 3]);
        let mut jobs = VecDeque::new();
        queue.take_jobs(&mut jobs);
        assert_eq!(jobs.len(), 3);
        queue.finish(3, Some(&Fault::invalid("wrong")));
        assert!(queue.ended(1).unwrap().is_none() && queue.ended(2).unwrap().is_none());
        assert!(queue.ended(3).unwrap().is_some_and(|it| it.is_err()));
        assert!(
            queue
                .ended(3)
                .is_err_and(|it| it.text.contains("earlier wait"))
        );
        assert!(
            queue
                .ended(4)
                .is_err_and(|it| it.text.contains("not started"))
        );
        queue.finish(1, None);
        assert!(queue.ended(1).unwrap().is_some_and(|it| it.is_ok()));
        assert!(!queue.is_idle());
        queue.finish(2, None);
        assert!(queue.is_idle());
    }

    #[test]
    fn jobs_that_nobody_asks_for_leave_nothing() {
        let mut queue = Queue::default();
        for is_forgotten_first in [true, false] {
            let number = queue.push(Job {
                work: Work::Group(Vec::new()),
                call: call(),
            });
            if is_forgotten_first {
                queue.forget(number);
                assert!(!queue.is_idle());
            }
            queue.finish(number, None);
            queue.forget(number);
            assert!(queue.is_idle() && queue.untold.is_empty());
        }
    }

    #[test]
    fn few_messages_pass_a_job_between_two_turns() {
        let mut byte = 0;
        // SAFETY: nothing is sent.
        let send = unsafe { Transfer::new(End::To(1), 0, (&raw mut byte, 1), null_mut()) };
        let mut queue = Queue::default();
        for _ in 0..3 * MOST_PASSED {
            assert!(queue.may_pass(&send));
            queue.push_done();
        }
        queue.push(Job {
            work: Work::Group(Vec::new()),
            call: call(),
        });
        for _ in 0..3 {
            for _ in 0..MOST_PASSED {
                assert!(queue.may_pass(&send));
                queue.push_done();
            }
            assert!(!queue.may_pass(&send));
            queue.end_turn(true);
        }
    }

    #[test]
    fn one_thread_at_a_time_has_the_turn_and_waiting_ones_come_first() {
        let group = || Job {
            work: Work::Group(Vec::new()),
            call: call(),
        };
        let mut queue = Queue::default();
        let nothing = queue.look();
        assert!(!queue.has_work());
        queue.push(group());
        // The background thread leaves what it has not seen before to those that wait.
        assert!(queue.has_work() && !queue.is_due(nothing));
        let seen = queue.look();
        assert!(queue.is_due(seen));
        queue.waiting = 1;
        assert!(queue.has_work() && !queue.is_due(seen));
        queue.waiting = 0;
        queue.runner = Some(Runner::Waiting);
        assert!(!queue.has_work() && !queue.is_due(seen));
        // What is left after a turn is due at the next look.
        let mut jobs = VecDeque::new();
        queue.take_jobs(&mut jobs);
        assert_eq!(jobs.len(), 1);
        queue.end_turn(true);
        assert!(!queue.is_due(seen) && queue.is_due(queue.look()));
    }
}
