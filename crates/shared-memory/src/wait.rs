//! The time that a rank spins and yields before it sleeps.

use std::time::{Duration, Instant};

use thiserror::Error;

use crate::bell::Bell;
use crate::sync::pause;
use crate::yielder::{Yielder, longest_yield};

/// How long a rank spins and yields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Polls with only a pause between.
    pub spins: u32,
    /// How long it then yields between polls, unless yields take too long.
    pub yields: Duration,
    /// Most yields of one wait.
    pub most_yields: u32,
    /// How long a yield takes at most while only ranks share the core.
    pub longest_yield: Duration,
    /// Whether it sleeps in most waits.
    pub sleeps_often: bool,
}

impl Patience {
    /// The patience of ranks on a host where this process may use this number of cores.
    ///
    /// With a core for each rank, the sender is running at this moment, so a rank first spins for
    /// as long as two context switches take (10 µs). With fewer cores, the sender may need this
    /// rank's core. With many ranks on a core, what a rank waits for has come after a yield or two,
    /// when the others have run; ranks that yield on beside others that sleep and wake would hardly
    /// run, because Linux counts the rest of a yielding thread's slice as used.
    pub const fn new(ranks: usize, cores: usize) -> Self {
        let crowded = ranks > CROWDED * cores;
        Self {
            spins: if ranks <= cores { 300 } else { 15 },
            yields: YIELDS,
            most_yields: if crowded { 2 } else { u32::MAX },
            longest_yield: longest_yield(ranks.div_ceil(if cores == 0 { 1 } else { cores })),
            sleeps_often: crowded,
        }
    }
}

/// How long a rank yields before it sleeps. Sleeping and waking take 5 to 50 µs, little beside
/// this.
const YIELDS: Duration = Duration::from_millis(2);

/// Ranks on a core beyond which a rank sleeps after few yields.
const CROWDED: usize = 2;

/// Why a wait ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Interrupted {
    /// A rank gave up.
    #[error("aborted by another rank (reason {reason})")]
    Aborted {
        /// Its reason.
        reason: u64,
    },
    /// The deadline has passed.
    #[error("waited until the deadline")]
    Deadline,
}

/// Waits for one rank.
#[derive(Debug)]
pub struct Waiter {
    bell: Bell,
    patience: Patience,
    yielder: Yielder,
    /// Whether this rank makes the ringers' fences when it sleeps. That takes longer than their
    /// own, so it pays only if sleeps are rare.
    fences_for_all: bool,
}

/// The longest sleep between checks of the deadline. No wake-up depends on it.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

impl Waiter {
    /// A waiter that sleeps on this bell. A bell has one owner: one waiter, used by one thread at a
    /// time.
    pub fn new(bell: Bell, patience: Patience) -> Self {
        let fences_for_all = bell.own(!patience.sleeps_often);
        Self {
            bell,
            patience,
            yielder: Yielder::new(patience.longest_yield),
            fences_for_all,
        }
    }

    /// The bell.
    pub fn bell(&self) -> &Bell {
        &self.bell
    }

    /// The yielder, for callers with a loop of their own.
    pub fn yielder(&self) -> &Yielder {
        &self.yielder
    }

    /// Calls `poll` until it returns `true`: it spins, then yields unless another program computes
    /// on this core, then sleeps until the bell is rung. A change that makes `poll` return `true`
    /// must be followed by a ring of this bell.
    ///
    /// # Errors
    /// The bell's owner was told to give up, or the deadline passed. Both are checked only while
    /// sleeping.
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
        for _ in 0..self.patience.most_yields {
            if now >= until {
                break;
            }
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
            if self.bell.sleep_unless(poll, longest, self.fences_for_all) {
                // An abort also ends the sleep.
                return self.check_abort();
            }
            if poll() {
                return Ok(());
            }
        }
    }

    /// Sleeps until the bell is rung, for at most `longest`, unless `poll` returns `true` after the
    /// sleep was announced: for callers with a loop of their own, which wait for long.
    pub fn sleep_unless(&self, mut poll: impl FnMut() -> bool, longest: Duration) {
        let for_all = self.fences_for_all;
        self.bell.sleep_unless(&mut poll, longest, for_all);
    }

    /// Calls `sleep`, which sleeps on descriptors, unless `poll` returns `true` after the sleep was
    /// announced. Returns `true` if it did not sleep. Only ringers that have one of the descriptors
    /// ([`Bell::with_alarms`]) end the sleep.
    #[cfg(not(loom))]
    pub fn sleep_on_descriptors(
        &self,
        mut poll: impl FnMut() -> bool,
        sleep: impl FnOnce(),
    ) -> bool {
        let for_all = self.fences_for_all;
        self.bell.sleep_on_descriptors(&mut poll, for_all, sleep)
    }

    /// The longest sleep until the next check.
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

    /// Checks for an abort; for callers with a loop of their own.
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
