//! Letting other threads run, as long as they give the core back soon.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::sync::yield_now;

/// A yield that takes longer gave the core to a program that computes: Linux lets it compute for 1 ms at least, mostly for
/// several. Other ranks on the same core wait for something long before.
const LONGEST: Duration = Duration::from_micros(900);

/// How many short yields make up for a long one. Where ranks take turns with a computing program, at most three short ones
/// come between two long ones. A rank that only lost its core at the end of its own time slice, as beside programs of other
/// sessions and containers, has a hundred between.
const MAKE_UP: u32 = 8;

/// How many short yields may be missing to make up for the long ones.
const MOST_MISSING: u32 = 2 * MAKE_UP;

/// How many times as long as the last long yield took there are none: a tenth of the time at most is lost to finding out
/// that the other program still computes.
const REST: u32 = 10;

/// Lets other threads of the core run.
///
/// `sched_yield` takes some hundred nanoseconds where the threads of this core wait for each other, much less than to sleep
/// and be woken. Beside a program that computes it takes the whole time slice of that program, and the kernel counts the rest
/// of the caller's own slice as used. A thread that sleeps instead gets the core back when it is woken.
#[derive(Debug, Default)]
pub struct Yielder {
    /// Short yields that are missing to make up for the long ones.
    missing: Cell<u32>,
    rests_until: Cell<Option<Instant>>,
}

impl Yielder {
    /// Lets other threads run, at a time that the caller has just read. Returns the time after that, or `None` if it did
    /// not because yields take too long on this core: the caller had better sleep.
    pub fn try_yield(&self, now: Instant) -> Option<Instant> {
        if self.rests_until.get().is_some_and(|until| now < until) {
            return None;
        }
        yield_now();
        let after = Instant::now();
        let took = after - now;
        let missing = self.missing.get();
        if took <= LONGEST {
            self.missing.set(missing.saturating_sub(1));
        } else if missing + MAKE_UP <= MOST_MISSING {
            self.missing.set(missing + MAKE_UP);
        } else {
            self.rests_until.set(Some(after + took * REST));
        }
        Some(after)
    }
}
