//! Yielding to other threads, unless they keep the core for long.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::sync::yield_now;

/// A longer yield ran a program that computes: Linux lets it run for at least 1 ms, mostly for
/// several. A few ranks that wait for this one yield back long before.
const LONGEST: Duration = Duration::from_micros(900);

/// What each rank of a core may add to that, µs: it runs until it waits again.
const OF_RANK_US: usize = 16;

/// How long a yield takes at most while only so many ranks share the core.
pub(crate) const fn longest_yield(ranks: usize) -> Duration {
    LONGEST.saturating_add(Duration::from_micros((OF_RANK_US * ranks) as u64))
}

/// Short yields that offset a long one. If ranks share a core with a program that computes, at most
/// three short yields come between two long ones. If a rank only loses its core at the end of its
/// time slice, as beside other sessions and containers, there are a hundred between.
const MAKE_UP: u32 = 8;

/// Most short yields that may be missing to offset long ones.
const MOST_MISSING: u32 = 2 * MAKE_UP;

/// Length of the pause without yields, in long yields: at most a tenth of the time is lost to
/// checking whether the other program still computes.
const REST: u32 = 10;

/// Longest pause. A yield is longer than a time slice if many ranks begin at once; afterwards they
/// are quick.
const LONGEST_REST: Duration = Duration::from_millis(50);

/// Yields the core to other threads.
///
/// `sched_yield` takes some hundred nanoseconds if the threads of this core wait for each other,
/// much less than to sleep and wake up. Beside a program that computes it takes that program's
/// whole time slice, and the kernel counts the rest of the caller's slice as used. A thread that
/// sleeps instead gets the core back when it is woken.
#[derive(Debug)]
pub struct Yielder {
    /// A longer yield ran another program.
    longest: Duration,
    /// Short yields that are missing to offset long ones.
    missing: Cell<u32>,
    rests_until: Cell<Option<Instant>>,
}

impl Default for Yielder {
    fn default() -> Self {
        Self::new(LONGEST)
    }
}

impl Yielder {
    /// Yields that take longer than `longest` run another program.
    pub const fn new(longest: Duration) -> Self {
        Self {
            longest,
            missing: Cell::new(0),
            rests_until: Cell::new(None),
        }
    }

    /// Forgets how long yields took, for instance while other ranks prepared what they now wait in.
    pub fn forget(&self) {
        self.missing.set(0);
        self.rests_until.set(None);
    }

    /// Yields; `now` is the present time. Returns the time after that, or `None` without yielding
    /// if yields take too long on this core: then the caller should sleep.
    pub fn try_yield(&self, now: Instant) -> Option<Instant> {
        if self.rests_until.get().is_some_and(|until| now < until) {
            return None;
        }
        yield_now();
        let after = Instant::now();
        let took = after - now;
        let missing = self.missing.get();
        if took <= self.longest {
            self.missing.set(missing.saturating_sub(1));
        } else if missing + MAKE_UP <= MOST_MISSING {
            self.missing.set(missing + MAKE_UP);
        } else {
            let rest = (took * REST).min(LONGEST_REST);
            self.rests_until.set(Some(after + rest));
        }
        Some(after)
    }
}
