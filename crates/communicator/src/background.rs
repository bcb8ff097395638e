//! Who runs what was started: the background thread, or a thread that would only wait.

use std::sync::MutexGuard;

use crate::comm::Shared;
use crate::queue::Queue;

impl Shared {
    /// Runs what was started, until the communicator ends.
    pub fn work(&self) {
        let mut queue = self.queue();
        loop {
            queue = self.take_jobs(queue, u64::MAX);
            if queue.ends {
                return;
            }
            queue = self.sleep(queue, None);
        }
    }

    /// Runs what was started up to this job in the calling thread, unless the background thread
    /// has begun: a thread that would only wait needs to wake no other one.
    pub fn run_up_to(&self, number: u64) {
        let mut queue = self.queue();
        if queue.is_held(number) {
            queue.release();
        }
        drop(self.take_jobs(queue, number));
    }

    /// Runs jobs up to this number as long as no other thread runs one.
    fn take_jobs<'a>(
        &'a self,
        mut queue: MutexGuard<'a, Queue>,
        most: u64,
    ) -> MutexGuard<'a, Queue> {
        while let Some((last, job)) = queue.take(most) {
            drop(queue);
            let done = self.run(&job);
            queue = self.queue();
            queue.finish(last, done.as_ref().err());
            self.changed.notify_all();
        }
        queue
    }
}
