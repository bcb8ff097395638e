//! Who runs what was started: a thread that waits, or else the background thread.
//!
//! A thread that waits for something runs it, with all else that was started, until that is done:
//! no other thread must wake. The background thread runs what nobody waits for. It takes nothing
//! younger than [`GRACE`], since most callers wait soon after they start something.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::communicator::error::{Code, Fault};
use crate::communicator::queue::{Queue, Runner};
use crate::communicator::shared::{Running, Shared, lock};

/// Shortest age of what the background thread runs.
const GRACE: Duration = Duration::from_micros(100);

/// The same while threads that wait run everything themselves: each look takes a core from them.
const MOST_GRACE: Duration = Duration::from_micros(400);

/// How long the background thread looks for work every [`GRACE`] after it found some. Then
/// it sleeps until something is started.
const WATCH: Duration = Duration::from_millis(2);

impl Shared {
    /// Runs what was started and nobody waits for, until the communicator ends.
    pub fn work(&self) {
        let mut queue = self.queue();
        let mut active = Instant::now();
        // What was there at the last look: jobs up to this number, after so many turns.
        let mut seen = (0, 0);
        let mut grace = GRACE;
        loop {
            let now = Instant::now();
            if queue.is_due(seen) {
                queue = self.run_turn(queue, Runner::Background, None, None);
                active = Instant::now();
                grace = GRACE;
                continue;
            }
            if queue.is_idle() && queue.ends {
                return;
            }
            let (_, turns) = std::mem::replace(&mut seen, queue.look());
            grace = match turns == queue.turns {
                true => GRACE,
                false => MOST_GRACE.min(2 * grace),
            };
            let is_mine = !queue.is_idle() && queue.runner != Some(Runner::Waiting);
            let watches = is_mine || now < active + WATCH;
            if is_mine {
                active = now;
            }
            let longest = match (watches, queue.self_deadline) {
                (true, _) => Some(grace),
                (false, self_deadline) => self_deadline.map(|it| it.saturating_duration_since(now)),
            };
            queue.is_watched = watches;
            queue = sleep_on(&self.started, queue, longest);
        }
    }

    /// Waits until `look` finds something in the queue or the time is over, and meanwhile runs what
    /// was started or sleeps while another thread does. Looks at least twice: one that only tests
    /// moves everything once. `job` is the one that it looks for, if it is one.
    pub fn wait_until<'a, R>(
        &'a self,
        mut queue: MutexGuard<'a, Queue>,
        longest: Option<Duration>,
        job: Option<u64>,
        mut look: impl FnMut(&mut Queue) -> Result<Option<R>, Fault>,
    ) -> (MutexGuard<'a, Queue>, Result<Option<R>, Fault>) {
        let until = longest.map(|it| Instant::now() + it);
        let mut is_last = false;
        let found = loop {
            let found = look(&mut queue);
            if is_last || !matches!(found, Ok(None)) {
                break found;
            }
            is_last = until.is_some_and(|it| Instant::now() >= it);
            queue = self.help(queue, until, job);
        };
        // What is not done is left to others.
        if !queue.is_idle() && queue.waiting == 0 && !queue.is_watched {
            self.started.notify_one();
        }
        (queue, found)
    }

    /// Takes a turn, or sleeps until something is done; at most until then.
    fn help<'a>(
        &'a self,
        mut queue: MutexGuard<'a, Queue>,
        until: Option<Instant>,
        job: Option<u64>,
    ) -> MutexGuard<'a, Queue> {
        queue.waiting += 1;
        let mut queue = match queue.has_work() {
            true => {
                let job = job.filter(|_| queue.waiting == 1 && !queue.has_wakers());
                self.run_turn(queue, Runner::Waiting, until, job)
            }
            false => {
                // A thread that was alone runs until its own job is done.
                if queue.runner == Some(Runner::Background) || queue.waiting == 2 {
                    self.interrupt();
                }
                let until = [until, queue.self_deadline].into_iter().flatten().min();
                let longest = until.map(|it| it.saturating_duration_since(Instant::now()));
                self.sleep(queue, longest)
            }
        };
        queue.waiting -= 1;
        queue
    }

    /// Sleeps until something is done, or the time is over.
    fn sleep<'a>(
        &'a self,
        mut queue: MutexGuard<'a, Queue>,
        longest: Option<Duration>,
    ) -> MutexGuard<'a, Queue> {
        queue.sleeping += 1;
        let mut queue = sleep_on(&self.changed, queue, longest);
        queue.sleeping -= 1;
        queue
    }

    /// Runs what was started until this job is done, or else any, another thread wants a turn, or
    /// the time is over.
    fn run_turn<'a>(
        &'a self,
        mut queue: MutexGuard<'a, Queue>,
        runner: Runner,
        until: Option<Instant>,
        job: Option<u64>,
    ) -> MutexGuard<'a, Queue> {
        queue.runner = Some(runner);
        self.news.store(false, Ordering::Release);
        // Only the runner has it, so this does not wait.
        let mut running = lock(&self.running);
        let Running { communicator, open } = &mut *running;
        queue.take_jobs(&mut open.jobs);
        let drains = queue.drains;
        drop(queue);
        let mut stop =
            || self.news.load(Ordering::Acquire) || until.is_some_and(|it| Instant::now() >= it);
        let ran = self.guard(|| open.run(communicator, job, &mut stop));
        if let Err(fault) = ran {
            // The others do not know what was wrong with this rank's calls.
            if fault.code == Code::Invalid {
                self.abort(&fault.text);
            }
            open.fail_all(&fault);
        }
        let is_idle = open.is_idle();
        open.time_out(drains && is_idle);
        let mut queue = self.queue();
        for (job, done) in open.ended.drain(..) {
            queue.finish(job, done.as_ref().err());
        }
        queue.self_deadline = open.self_deadline();
        // Calls that start without a turn take it while they hold the queue.
        drop(running);
        queue.end_turn(!is_idle);
        if queue.sleeping > 0 {
            self.changed.notify_all();
        }
        let woken = queue.take_woken();
        if woken.is_empty() {
            return queue;
        }
        drop(queue);
        for waker in woken {
            // It runs code of others; the turn must end whatever that does.
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
        self.queue()
    }

    /// Tells the threads that may run it that something was started.
    pub fn announce(&self, queue: &Queue) {
        if queue.runner.is_some() {
            self.interrupt();
        } else if !queue.is_watched {
            self.started.notify_one();
        }
    }

    /// Ends the turn of the thread that runs what was started.
    pub fn interrupt(&self) {
        self.news.store(true, Ordering::Release);
        self.bell.ring();
    }
}

fn sleep_on<'a>(
    condition: &Condvar,
    queue: MutexGuard<'a, Queue>,
    longest: Option<Duration>,
) -> MutexGuard<'a, Queue> {
    match longest {
        Some(longest) => {
            let woken = condition.wait_timeout(queue, longest);
            woken.unwrap_or_else(PoisonError::into_inner).0
        }
        None => {
            let woken = condition.wait(queue);
            woken.unwrap_or_else(PoisonError::into_inner)
        }
    }
}
