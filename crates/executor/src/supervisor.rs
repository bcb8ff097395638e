//! Waits that end: with progress, with another rank's failure or departure, or with the timeout.

use std::time::{Duration, Instant};

use program::Collective;
use shared_memory::{Waiter, Yielder};

use crate::bootstrap::Bootstrap;
use crate::comparison::Comparison;
use crate::error::{Error, Waiting};
use crate::interrupt;
use crate::network::Progress;

/// Between two checks whether other ranks failed or left.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// How long a rank drives its connections without progress before it sleeps, if it has a core.
const DRIVING: Duration = Duration::from_micros(100);

/// The reason why a peer's buffers cannot be used.
#[derive(Debug)]
pub struct Fault {
    /// The peer.
    pub peer: u32,
    /// Whether the kernel refused the access, or they cannot be opened; otherwise their descriptors
    /// are invalid.
    pub refused: bool,
    /// What is wrong.
    pub why: String,
}

/// The ranks that a rank waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitsFor {
    /// Ranks of other hosts; also of its own, if all wake a rank that sleeps on its connections.
    Remote,
    /// Only ranks of its host.
    Local,
    /// Any others.
    Any,
}

/// Waits for a launch without progress.
pub struct Supervisor<'a> {
    pub(crate) bootstrap: &'a mut dyn Bootstrap,
    pub(crate) waiter: &'a Waiter,
    pub(crate) collective: Collective,
    pub(crate) longest: Duration,
    /// When this rank began to wait, if that was before this launch.
    pub(crate) since: Option<Instant>,
    /// Longest sleep before it polls again.
    pub(crate) nap: Duration,
    /// Inline progress on connections between hosts while this rank waits.
    pub(crate) progress: Option<&'a dyn Progress>,
    /// The collective, to be compared with those of peers.
    pub(crate) comparison: Option<Comparison<'a>>,
}

impl Supervisor<'_> {
    /// The collective that runs.
    pub const fn collective(&self) -> Collective {
        self.collective
    }

    /// What ranks publish and fetch.
    pub fn bootstrap(&mut self) -> &mut dyn Bootstrap {
        self.bootstrap
    }

    /// The error for a peer's buffers that cannot be used.
    #[cold]
    pub fn fault(&self, fault: Fault) -> Error {
        let (rank, collective) = (self.bootstrap.rank(), self.collective);
        let Fault { peer, refused, why } = fault;
        if !refused && let Some(Err(differs)) = self.comparison.map(|it| it.look(rank)) {
            return differs;
        }
        match refused {
            true => Error::Unreachable {
                rank,
                peer,
                collective,
                why,
            },
            false => Error::Damaged {
                rank,
                peer,
                collective,
                why,
            },
        }
    }

    /// Notes progress, so that the next wait begins anew.
    pub const fn restart(&mut self) {
        self.since = None;
    }

    /// Lets other threads run, for a backend that waits by itself.
    pub fn yielder(&self) -> &Yielder {
        self.waiter.yielder()
    }

    /// Waits until `poll` returns `true`: yields at first, then sleeps. `waiting` is the reason,
    /// for errors, and `waits_for` the ranks that can end the wait.
    ///
    /// # Errors
    /// Another rank failed or left, or the wait timed out.
    #[cold]
    pub fn wait(
        &mut self,
        poll: &mut dyn FnMut() -> bool,
        waiting: impl Fn() -> Waiting,
        waits_for: impl Fn() -> WaitsFor,
    ) -> Result<(), Error> {
        if let Some(progress) = self.progress
            && !progress.is_crowded()
            && drive(progress, self.waiter.yielder(), poll)
        {
            return Ok(());
        }
        let mut began = self.since;
        loop {
            // One reading of the clock serves both.
            let now = Instant::now();
            let since = *began.get_or_insert(now);
            if self.sleep(poll, now + self.nap, &waits_for) {
                return Ok(());
            }
            if let Err(error) = self.look(since, waiting()) {
                // Data that it sent before it left may have arrived meanwhile.
                if matches!(error, Error::Aborted { .. }) && poll() {
                    return Ok(());
                }
                return Err(error);
            }
        }
    }

    /// Waits until `poll` returns `true`, or that moment. Returns what it returned.
    fn sleep(
        &self,
        poll: &mut dyn FnMut() -> bool,
        until: Instant,
        waits_for: &impl Fn() -> WaitsFor,
    ) -> bool {
        while let Some(progress) = self.progress {
            match waits_for() {
                WaitsFor::Remote => {
                    let waits = || waits_for() == WaitsFor::Remote;
                    match sleep_on_connections(progress, self.waiter, poll, &waits, until) {
                        Some(Slept::Done) => return true,
                        Some(Slept::Late) => return false,
                        Some(Slept::Woken) => continue,
                        None => {}
                    }
                }
                WaitsFor::Local if progress.is_crowded() => {
                    // A proxy thread would take the core from the ranks that this one waits for.
                    progress.finish();
                    let mut done = false;
                    let mut check = || {
                        done = poll();
                        done || waits_for() != WaitsFor::Local
                    };
                    match self.waiter.wait_until(&mut check, Some(until)) {
                        Ok(()) if done => return true,
                        Ok(()) => continue,
                        Err(_) => return false,
                    }
                }
                WaitsFor::Local | WaitsFor::Any => {}
            }
            progress.hand_back();
            break;
        }
        self.waiter.wait_until(&mut *poll, Some(until)).is_ok()
    }

    /// Makes progress on connections between hosts, for a backend that waits by itself. Returns
    /// `false` if only the proxy threads can.
    pub fn make_progress(&self) -> bool {
        let Some(progress) = self.progress else {
            return false;
        };
        progress.make_progress();
        true
    }

    /// Checks whether a wait that began at `since` should continue.
    ///
    /// # Errors
    /// Another rank failed, left or runs another collective, the caller interrupts, or the wait
    /// timed out.
    #[cold]
    pub fn look(&mut self, since: Instant, waiting: Waiting) -> Result<(), Error> {
        let rank = self.bootstrap.rank();
        if let Some(failure) = self.bootstrap.failure(waiting.peer()) {
            return Err(Error::Aborted { rank, failure });
        }
        if interrupt::is_wanted() {
            return Err(Error::Interrupted {
                rank,
                collective: self.collective,
                waiting,
            });
        }
        if let Some(comparison) = &self.comparison {
            comparison.look(rank)?;
        }
        let waited = since.elapsed();
        if waited > self.longest {
            return Err(Error::Timeout {
                rank,
                collective: self.collective,
                waiting,
                waited,
            });
        }
        Ok(())
    }
}

/// How a sleep on connections ended.
enum Slept {
    /// `poll` returned `true`.
    Done,
    /// The time is over.
    Late,
    /// Something happened.
    Woken,
}

/// Sleeps on the connections between hosts while it `waits` only for them, until that moment at
/// most. Returns `None` if it cannot.
fn sleep_on_connections(
    progress: &dyn Progress,
    waiter: &Waiter,
    poll: &mut dyn FnMut() -> bool,
    waits: &impl Fn() -> bool,
    until: Instant,
) -> Option<Slept> {
    let longest = until.saturating_duration_since(Instant::now());
    if longest.is_zero() {
        return Some(Slept::Late);
    }
    let (mut can_sleep, mut done) = (true, false);
    let check = || {
        let progressed = progress.prepare_sleep();
        can_sleep = progressed.is_some();
        done = poll();
        done || progressed != Some(false) || !waits()
    };
    if !waiter.sleep_on_descriptors(check, || progress.sleep(longest)) {
        done = poll();
    }
    can_sleep.then_some(if done { Slept::Done } else { Slept::Woken })
}

/// Makes progress until `poll` returns `true`, there is none for some time, or another program
/// computes on this core.
fn drive(progress: &dyn Progress, yielder: &Yielder, poll: &mut dyn FnMut() -> bool) -> bool {
    let mut now = Instant::now();
    let mut until = now + DRIVING;
    loop {
        let progressed = progress.make_progress();
        if poll() {
            return true;
        }
        if progressed {
            now = Instant::now();
            until = now + DRIVING;
            continue;
        }
        match yielder.try_yield(now) {
            Some(after) if after < until => now = after,
            _ => return false,
        }
    }
}
