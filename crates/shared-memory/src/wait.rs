//! How long to spin, when to let others run, when to sleep.

use std::time::{Duration, Instant};

use thiserror::Error;

use crate::bell::Bell;
use crate::sync::pause;
use crate::yielder::Yielder;

/// How patiently a rank waits before it does something that costs others less and itself more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Looks with nothing but a pause between.
    pub spins: u32,
    /// How long after that other threads may run between two looks, as long as they give the core back soon.
    pub yields: Duration,
}

impl Patience {
    /// For so many ranks on a host where this process may use so many cores.
    ///
    /// With a core for each rank, the awaited data is being made at this moment, so a rank first looks again and again for as
    /// long as two switches of threads take (10 µs). With fewer cores the rank that makes the data may need this very core.
    pub const fn new(ranks: usize, cores: usize) -> Self {
        Self {
            spins: if ranks <= cores { 300 } else { 15 },
            yields: YIELDS,
        }
    }
}

/// How long a rank yields before it sleeps. To sleep and be woken takes 5 to 50 µs, little beside this.
const YIELDS: Duration = Duration::from_millis(2);

/// Why a wait ended without what was awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Interrupted {
    /// Another rank, or this one, gave up.
    #[error("aborted by another rank (reason {reason})")]
    Aborted {
        /// The reason it gave.
        reason: u64,
    },
    /// The time that was given is over.
    #[error("waited until the deadline")]
    Deadline,
}

/// How one rank waits.
#[derive(Debug)]
pub struct Waiter {
    bell: Bell,
    patience: Patience,
    yielder: Yielder,
}

/// The longest sleep without a look at the deadline. Nobody's wake-up depends on it.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

impl Waiter {
    /// A waiter that sleeps on this bell. A bell has one owner: one waiter, used by one thread at a time.
    pub fn new(bell: Bell, patience: Patience) -> Self {
        bell.own();
        Self {
            bell,
            patience,
            yielder: Yielder::default(),
        }
    }

    /// The bell.
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    /// What lets other threads run, for loops that wait by themselves.
    pub fn yielder(&self) -> &Yielder {
        &self.yielder
    }

    /// Calls `poll` until it answers yes: without pause at first, then with yields unless a program that computes shares
    /// the core, then sleeping until the bell is rung. Whatever makes `poll` answer yes must be followed by a ring of this
    /// bell.
    ///
    /// # Errors
    /// The bell's owner was told to give up, or the deadline passed. Both are looked at only now and then.
    #[inline]
    pub fn wait_until(
        &self,
        mut poll: impl FnMut() -> bool,
        deadline: Option<Instant>,
    ) -> Result<(), Interrupted> {
        for _ in 0..self.patience.spins {
            if poll() {
                return Ok(());
            }
            pause();
        }
        self.wait_long(&mut poll, deadline)
    }

    #[cold]
    #[inline(never)]
    fn wait_long(
        &self,
        poll: &mut impl FnMut() -> bool,
        deadline: Option<Instant>,
    ) -> Result<(), Interrupted> {
        let mut now = Instant::now();
        let until = now + self.patience.yields;
        while now < until {
            if poll() {
                return Ok(());
            }
            match self.yielder.try_yield(now) {
                Some(after) => now = after,
                None => break,
            }
        }
        loop {
            let longest = self.check(deadline)?;
            if self.bell.sleep_unless(poll, longest) {
                // What answered yes may have been the abort.
                return self.check_abort();
            }
            if poll() {
                return Ok(());
            }
        }
    }

    /// How long to sleep at most.
    fn check(&self, deadline: Option<Instant>) -> Result<Duration, Interrupted> {
        self.check_abort()?;
        let Some(deadline) = deadline else {
            return Ok(LONGEST_SLEEP);
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Interrupted::Deadline);
        }
        Ok(left.min(LONGEST_SLEEP))
    }

    /// Whether to give up; for loops that wait by themselves.
    ///
    /// # Errors
    /// The bell's owner was told to give up.
    pub fn check_abort(&self) -> Result<(), Interrupted> {
        match self.bell.aborted() {
            0 => Ok(()),
            reason => Err(Interrupted::Aborted { reason }),
        }
    }
}
