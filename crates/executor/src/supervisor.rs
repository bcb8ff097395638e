//! Waits that end: with progress, with another rank's failure or departure, or with the timeout.

use std::time::{Duration, Instant};

use program::Collective;
use shared_memory::{Interrupted, Waiter, Yielder};

use crate::bootstrap::Bootstrap;
use crate::error::{Error, Waiting};
use crate::network::Progress;

/// Between two checks whether other ranks failed or left.
const LOOK: Duration = Duration::from_millis(50);

/// How long a rank without inline progress polls before it leaves the connections to the proxies.
const DRIVING: Duration = Duration::from_micros(100);

/// The reason why a peer's buffers cannot be used.
#[derive(Debug)]
pub struct Fault {
    /// The peer.
    pub peer: u32,
    /// Whether the kernel refused the access; otherwise their descriptors are invalid.
    pub refused: bool,
    /// What is wrong.
    pub why: String,
}

/// Waits for a launch without progress.
pub struct Supervisor<'a> {
    pub(crate) bootstrap: &'a mut dyn Bootstrap,
    pub(crate) waiter: &'a Waiter,
    pub(crate) collective: Collective,
    pub(crate) longest: Duration,
    /// Inline progress on connections between hosts while this rank waits.
    pub(crate) progress: Option<&'a dyn Progress>,
}

impl Supervisor<'_> {
    /// The error for a peer's buffers that cannot be used.
    #[cold]
    pub fn fault(&self, fault: Fault) -> Error {
        let (rank, collective) = (self.bootstrap.rank(), self.collective);
        let Fault { peer, refused, why } = fault;
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

    /// Lets other threads run, for a backend that waits by itself.
    pub fn yielder(&self) -> &Yielder {
        self.waiter.yielder()
    }

    /// Waits until `poll` returns `true`: yields at first, then sleeps. `waiting` is the reason,
    /// for errors.
    ///
    /// # Errors
    /// Another rank failed or left, or the wait timed out.
    #[cold]
    pub fn wait(
        &mut self,
        poll: &mut dyn FnMut() -> bool,
        waiting: impl Fn() -> Waiting,
    ) -> Result<(), Error> {
        if let Some(progress) = self.progress
            && drive(progress, self.waiter.yielder(), poll)
        {
            return Ok(());
        }
        let mut began = None;
        loop {
            // One reading of the clock serves both.
            let now = Instant::now();
            let since = *began.get_or_insert(now);
            match self.waiter.wait_until(&mut *poll, Some(now + LOOK)) {
                Ok(()) => return Ok(()),
                Err(Interrupted::Aborted { .. } | Interrupted::Deadline) => {}
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
    /// Another rank failed or left, or the wait timed out.
    #[cold]
    pub fn look(&mut self, since: Instant, waiting: Waiting) -> Result<(), Error> {
        let rank = self.bootstrap.rank();
        if let Some(failure) = self.bootstrap.failure(Some(waiting.peer())) {
            return Err(Error::Aborted { rank, failure });
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
            _ => {
                progress.hand_back();
                return false;
            }
        }
    }
}
