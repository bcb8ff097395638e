//! The bootstrap of ranks that are threads of one process.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use super::{Bootstrap, Crowd, Offer};
use crate::error::{Error, Failure};

/// The offers of a rank, and whether it has left.
#[derive(Default)]
struct Offers {
    by_name: FxHashMap<String, Offer>,
    left: bool,
}

/// The offers of one rank, and the ranks that wait for them. Each rank has its own table, so that
/// an offer wakes only those.
#[derive(Default)]
struct Table {
    offers: Mutex<Offers>,
    changed: Condvar,
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, Offers> {
        // A rank that panics between two statements leaves a consistent state.
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Meeting {
    tables: Vec<Table>,
    /// The failure of the communicator. Lock it after a table, if both are needed.
    failure: Mutex<Option<Failure>>,
}

impl Meeting {
    fn failure(&self) -> MutexGuard<'_, Option<Failure>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all waiting ranks, after a failure became known.
    fn wake_all(&self) {
        for table in &self.tables {
            // With the lock, no rank is between its check and its wait.
            drop(table.lock());
            table.changed.notify_all();
        }
    }
}

/// The bootstrap of one rank among threads.
pub struct Local {
    rank: u32,
    ranks: u32,
    cores: u32,
    meeting: Arc<Meeting>,
}

impl Local {
    /// One for each rank, in rank order.
    pub fn all(ranks: u32) -> Vec<Self> {
        let meeting = Arc::new(Meeting {
            tables: (0..ranks).map(|_| Table::default()).collect(),
            failure: Mutex::default(),
        });
        // Counted before threads of ranks are bound to cores.
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let cores = u32::try_from(cores).unwrap_or(u32::MAX);
        let of = |rank| Self {
            rank,
            ranks,
            cores,
            meeting: Arc::clone(&meeting),
        };
        (0..ranks).map(of).collect()
    }

    fn own(&self) -> &Table {
        &self.meeting.tables[self.rank as usize]
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

    fn passes_segments(&self) -> bool {
        true
    }

    fn crowd(&self) -> Crowd {
        Crowd {
            ranks: self.ranks,
            cores: self.cores,
        }
    }

    fn publish(&mut self, name: &str, offer: Offer) -> Result<(), Error> {
        self.own().lock().by_name.insert(name.to_owned(), offer);
        self.own().changed.notify_all();
        Ok(())
    }

    fn fetch(&mut self, from: u32, name: &str, longest: Duration) -> Result<Offer, Error> {
        let rank = self.rank;
        let deadline = Instant::now() + longest;
        let table = &self.meeting.tables[from as usize];
        let mut offers = table.lock();
        loop {
            if let Some(offer) = offers.by_name.get(name) {
                return Ok(offer.clone());
            }
            let failure = self.meeting.failure().clone();
            if let Some(failure) = failure.or_else(|| departure(from, &offers)) {
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
            let waited = table.changed.wait_timeout(offers, left);
            offers = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn has_offer(&mut self, from: u32, name: &str) -> Result<bool, Error> {
        let rank = self.rank;
        let offers = self.meeting.tables[from as usize].lock();
        if offers.by_name.contains_key(name) {
            return Ok(true);
        }
        let failure = self.meeting.failure().clone();
        match failure.or_else(|| departure(from, &offers)) {
            Some(failure) => Err(Error::Aborted { rank, failure }),
            None => Ok(false),
        }
    }

    fn fail(&mut self, failure: &Failure) {
        self.meeting
            .failure()
            .get_or_insert_with(|| failure.clone());
        self.meeting.wake_all();
    }

    fn failure(&mut self, waiting_for: Option<u32>) -> Option<Failure> {
        if let Some(failure) = &*self.meeting.failure() {
            return Some(failure.clone());
        }
        let rank = waiting_for?;
        let table = self.meeting.tables.get(rank as usize)?;
        departure(rank, &table.lock())
    }
}

/// The failure of a rank that has left, for a rank that still waits for it.
fn departure(rank: u32, offers: &Offers) -> Option<Failure> {
    offers.left.then(|| Failure {
        rank,
        what: "its communicator was dropped while others still needed it".to_owned(),
    })
}

impl Drop for Local {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let rank = self.rank;
            let what = "its thread panicked".to_owned();
            self.fail(&Failure { rank, what });
        }
        let mut own = self.own().lock();
        own.left = true;
        // The last rank that holds a segment frees it.
        let offers = std::mem::take(&mut own.by_name);
        drop(own);
        self.own().changed.notify_all();
        drop(offers);
    }
}
