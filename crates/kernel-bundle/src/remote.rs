//! Watching, during a launch, over the ranks of other processes that it waits for.

use std::time::{Duration, Instant};

use executor::supervisor::Supervisor;
use executor::{Error, Waiting};

/// Between two looks whether they are there.
const LOOK: Duration = Duration::from_millis(20);

/// How long a launch may go on after a rank left: what it sent before that may be on its way through the kernels still.
const GRACE: Duration = Duration::from_secs(10);

/// The ranks of other processes that a launch waits for.
pub(crate) struct RemoteRanks {
    rank: u32,
    peers: Vec<u32>,
    began: Instant,
    looked: Instant,
    /// Since when one of them is known to have left.
    left: Option<Instant>,
}

impl RemoteRanks {
    /// Those that a rank of this process waits for from now on.
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

    /// Whether there are any.
    pub fn waits(&self) -> bool {
        !self.peers.is_empty()
    }

    /// Looks now and then whether to go on.
    ///
    /// # Errors
    /// One failed, or left some time ago, or the launch takes too long.
    pub fn look(&mut self, supervisor: &mut Supervisor<'_>) -> Result<(), Error> {
        let now = Instant::now();
        if now < self.looked + LOOK {
            return Ok(());
        }
        self.looked = now;
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
            // What is wrong whoever is waited for is no matter of leaving.
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
