//! Letting other threads run, as long as they give the core back soon.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::sync::yield_now;

/// A yield that takes longer gave the core to a program that computes: Linux lets it compute for 1 ms at least, mostly for
/// several. Other ranks on the same core wait for something long before.
const LONGEST: Duration = Duration::from_micros(900);

/// How much time such yields may take together before there are no more. What comes now and then on any machine is shorter.
const ALLOWED: Duration = Duration::from_millis(5);

/// How many times as long as it took until such a yield is forgotten. Beside a program that always computes, a rank thus
/// loses a tenth of its time to finding out that it still does.
const FORGOTTEN: u32 = 10;

/// Lets other threads of the core run.
///
/// `sched_yield` takes some hundred nanoseconds where the threads of this core wait for each other, much less than to sleep
/// and be woken. Beside a program that computes it takes the whole time slice of that program, and the kernel counts the rest
/// of the caller's own slice as used. A thread that sleeps instead gets the core back when it is woken.
#[derive(Debug, Default)]
pub struct Yielder {
    /// When all long yields will be forgotten.
    forgotten_at: Cell<Option<Instant>>,
}

impl Yielder {
    /// Lets other threads run, at a time that the caller has just read. Returns the time after that, or `None` if it did
    /// not because a program that computes shares this core: the caller had better sleep.
    pub fn try_yield(&self, now: Instant) -> Option<Instant> {
        if let Some(at) = self.forgotten_at.get()
            && now + ALLOWED * FORGOTTEN < at
        {
            return None;
        }
        yield_now();
        let after = Instant::now();
        let took = after - now;
        if took > LONGEST {
            let from = self.forgotten_at.get().map_or(after, |at| at.max(after));
            self.forgotten_at.set(Some(from + took * FORGOTTEN));
        }
        Some(after)
    }
}
