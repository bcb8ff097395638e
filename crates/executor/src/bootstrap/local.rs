//! The bootstrap of ranks that are threads of one process.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::{Bootstrap, Offer};
use crate::error::{Error, Failure};

#[derive(Default)]
struct State {
    offers: FxHashMap<(u32, String), Offer>,
    failure: Option<Failure>,
    left: Vec<u32>,
}

#[derive(Default)]
struct Meeting {
    state: Mutex<State>,
    changed: Condvar,
}

impl Meeting {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A rank that panics between two statements here leaves a state that is still whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bootstrap of one rank among threads.
pub struct Local {
    rank: u32,
    ranks: u32,
    meeting: Arc<Meeting>,
}

impl Local {
    /// One for each rank, in rank order.
    pub fn all(ranks: u32) -> Vec<Self> {
        let meeting = Arc::new(Meeting::default());
        let of = |rank| Self {
            rank,
            ranks,
            meeting: Arc::clone(&meeting),
        };
        (0..ranks).map(of).collect()
    }
}

impl Bootstrap for Local {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn shares_memory(&self, _peer: u32) -> bool {
        true
    }

    fn publish(&mut self, name: &str, offer: Offer) -> Result<(), Error> {
        let mut state = self.meeting.lock();
        state.offers.insert((self.rank, name.to_owned()), offer);
        self.meeting.changed.notify_all();
        Ok(())
    }

    fn fetch(&mut self, from: u32, name: &str, longest: Duration) -> Result<Offer, Error> {
        let rank = self.rank;
        let deadline = Instant::now() + longest;
        let key = (from, name.to_owned());
        let mut state = self.meeting.lock();
        loop {
            if let Some(offer) = state.offers.get(&key) {
                return Ok(offer.clone());
            }
            if let Some(failure) = failure(&state, Some(from)) {
                return Err(Error::Aborted { rank, failure });
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let why = format!(
                    "rank {from} did not offer `{name}` within {} s",
                    longest.as_secs_f32()
                );
                return Err(Error::Bootstrap { rank, why });
            }
            let waited = self.meeting.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn fail(&mut self, failure: &Failure) {
        let mut state = self.meeting.lock();
        state.failure.get_or_insert_with(|| failure.clone());
        self.meeting.changed.notify_all();
    }

    fn failure(&mut self, waiting_for: Option<u32>) -> Option<Failure> {
        failure(&self.meeting.lock(), waiting_for)
    }
}

fn failure(state: &State, waiting_for: Option<u32>) -> Option<Failure> {
    if let Some(failure) = &state.failure {
        return Some(failure.clone());
    }
    let rank = waiting_for.filter(|rank| state.left.contains(rank))?;
    Some(Failure {
        rank,
        what: "its communicator was dropped while others still needed it".to_owned(),
    })
}

impl Drop for Local {
    fn drop(&mut self) {
        let mut state = self.meeting.lock();
        if std::thread::panicking() {
            let rank = self.rank;
            let what = "its thread panicked".to_owned();
            state.failure.get_or_insert(Failure { rank, what });
        }
        state.left.push(self.rank);
        // What was offered is needed only while both are there; the memory goes with the last who holds it.
        state.offers.retain(|(rank, _), _| *rank != self.rank);
        self.meeting.changed.notify_all();
    }
}
