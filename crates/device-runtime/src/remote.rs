//! Watches the ranks that a launch waits for.

use std::time::{Duration, Instant};

use executor::supervisor::Supervisor;
use executor::{Error, Waiting};

/// Interval between two checks.
const LOOK: Duration = Duration::from_millis(20);

/// How long a launch may continue after a rank left: its last data may still be on the way.
const GRACE: Duration = Duration::from_secs(10);

/// The ranks of other processes that a launch waits for, and the launch's deadline.
pub(crate) struct RemoteRanks {
    rank: u32,
    peers: Vec<u32>,
    /// When the kernels last made progress.
    began: Instant,
    looked: Instant,
    /// When a departure was first noticed.
    left: Option<Instant>,
}

impl RemoteRanks {
    /// Starts to watch `peers` on behalf of `rank`.
    pub fn new(rank: u32, peers: impl Iterator<Item = u32>) -> Self {
        let mut peers: Vec<u32> = peers.collect();
        peers.sort_unstable();
        peers.dedup();
        let now = Instant::now();
        Self {
            rank,
            peers,
            began: now,
            looked: now,
            left: None,
        }
    }

    /// Returns `true` if there is any remote rank.
    pub fn waits(&self) -> bool {
        !self.peers.is_empty()
    }

    /// Begins the time anew: a launch was submitted or has ended just now.
    pub fn restart(&mut self) {
        self.began = Instant::now();
    }

    /// Checks the remote ranks, at most once per interval. `waiting` is the reason of a wait
    /// without them.
    ///
    /// # Errors
    /// A remote rank failed or left more than 10 s ago, or the launch timed out.
    pub fn look(&mut self, supervisor: &mut Supervisor<'_>, waiting: Waiting) -> Result<(), Error> {
        let now = Instant::now();
        if now < self.looked + LOOK {
            return Ok(());
        }
        self.looked = now;
        if self.peers.is_empty() {
            return supervisor.look(self.began, waiting);
        }
        let channel = 0;
        let own = Waiting::Signal {
            from: self.rank,
            channel,
        };
        for peer in &self.peers {
            let theirs = Waiting::Signal {
                from: *peer,
                channel,
            };
            let Err(error) = supervisor.look(self.began, theirs) else {
                continue;
            };
            // An error that also occurs for the own rank concerns the launch, not a departure.
            if supervisor.look(self.began, own).is_err() {
                return Err(error);
            }
            let left = *self.left.get_or_insert(now);
            if now >= left + GRACE {
                return Err(error);
            }
        }
        Ok(())
    }
}
