//! Waiting that ends: when another rank failed, when one left, when it took too long.

use std::time::{Duration, Instant};

use program::Collective;
use shared_memory::{Interrupted, Waiter, Yielder};

use crate::bootstrap::Bootstrap;
use crate::error::{Error, Waiting};
use crate::network::Progress;

/// How long a rank sleeps before it looks whether others are still there.
const LOOK: Duration = Duration::from_millis(50);

/// How long a rank looks for what goes between hosts, in vain, before it sleeps and leaves that to others.
const DRIVING: Duration = Duration::from_micros(100);

/// Why the buffers of a peer cannot be used.
#[derive(Debug)]
pub struct Fault {
    /// The peer.
    pub peer: u32,
    /// Whether the kernel refused; otherwise what the peer shows of them cannot be right.
    pub refused: bool,
    /// What is wrong.
    pub why: String,
}

/// Watches over a launch that does not get on.
pub struct Supervisor<'a> {
    pub(crate) bootstrap: &'a mut dyn Bootstrap,
    pub(crate) waiter: &'a Waiter,
    pub(crate) collective: Collective,
    pub(crate) longest: Duration,
    /// Inline progress on connections between hosts while this rank waits.
    pub(crate) progress: Option<&'a dyn Progress>,
}

impl Supervisor<'_> {
    /// The error of a peer's buffers that cannot be used.
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

    /// What lets other threads run, for a backend that waits by itself.
    pub fn yielder(&self) -> &Yielder {
        self.waiter.yielder()
    }

    /// Waits until `poll` answers yes, with yields, then sleeping. `waiting` says for what, should it take too
    /// long.
    ///
    /// # Errors
    /// Another rank failed or left, or the time is over.
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
            // The first look needs no clock but the one for its own end.
            let now = Instant::now();
            let since = *began.get_or_insert(now);
            match self.waiter.wait_until(&mut *poll, Some(now + LOOK)) {
                Ok(()) => return Ok(()),
                Err(Interrupted::Aborted { .. } | Interrupted::Deadline) => {}
            }
            if let Err(error) = self.look(since, waiting()) {
                // What it sent before it left may have come meanwhile.
                if matches!(error, Error::Aborted { .. }) && poll() {
                    return Ok(());
                }
                return Err(error);
            }
        }
    }

    /// Makes progress on connections between hosts, for a backend that waits by itself. Returns `false` if
    /// only the proxy threads can.
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
    /// Another rank failed or left, or the time is over.
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

/// Makes progress until `poll` returns `true`, there is none for some time, or another program computes
/// on this core.
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
