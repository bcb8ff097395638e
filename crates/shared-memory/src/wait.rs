//! How long to spin, when to let others run, when to sleep.

use std::time::{Duration, Instant};

use thiserror::Error;

use crate::bell::Bell;
use crate::sync::{pause, yield_now};

/// How patiently a rank waits before it does something that costs others less and itself more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Looks with nothing but a pause between.
    pub spins: u32,
    /// Looks after which other threads may run.
    pub yields: u32,
}

impl Patience {
    /// For so many ranks on a host where this process may use so many cores.
    ///
    /// With a core for everyone, what is awaited is being made at this moment: looking again and again is the shortest
    /// way, first for about as long as changing threads takes twice (10 µs), then with chances for others, who may need
    /// the core after all, for milliseconds. With fewer cores the one that makes it may need the very core that spins.
    pub const fn new(ranks: usize, cores: usize) -> Self {
        if ranks <= cores {
            Self {
                spins: 300,
                yields: 5000,
            }
        } else {
            Self {
                spins: 20,
                yields: 200,
            }
        }
    }
}

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
}

/// The longest sleep without a look at the deadline. Nobody's wake-up depends on it.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

impl Waiter {
    /// A waiter that sleeps on this bell. A bell has one owner: one waiter, used by one thread at a time.
    pub fn new(bell: Bell, patience: Patience) -> Self {
        bell.own();
        Self { bell, patience }
    }

    /// The bell.
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    /// Calls `poll` until it answers yes: without pause at first, then letting others run, then sleeping until the bell
    /// is rung. Whatever makes `poll` answer yes must be followed by a ring of this bell.
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
        for _ in 0..self.patience.yields {
            if poll() {
                return Ok(());
            }
            yield_now();
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
