//! Inline progress: an engine that waits drives the connections in place of the proxy threads.
//!
//! Waking a proxy thread for each short message, on each side, would cost more than the message.
//! While an engine makes progress inline, the proxy thread does not poll the sockets. Once a
//! millisecond it checks whether the engine still does, and it forwards for other ranks when they
//! wake it. The engine hands the connections back before it sleeps, or when a send is left
//! unfinished.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, TryLockError};

use executor::network::Progress;
use shared_memory::Ring;

use super::queue::Shared;
use super::worker::Worker;

/// Inline progress on the connections of one proxy thread.
pub(crate) struct ThreadProgress {
    shared: Arc<Shared>,
    worker: Arc<Mutex<Worker>>,
}

impl ThreadProgress {
    pub(super) const fn new(shared: Arc<Shared>, worker: Arc<Mutex<Worker>>) -> Self {
        Self { shared, worker }
    }

    fn with<T>(&self, then: impl FnOnce(&mut Worker) -> T) -> Option<T> {
        match self.worker.try_lock() {
            Ok(mut worker) => Some(then(&mut worker)),
            Err(TryLockError::Poisoned(worker)) => Some(then(&mut worker.into_inner())),
            // The thread is making progress.
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn make_progress(&self) -> bool {
        let result = self.with(|worker| {
            self.shared.helped.fetch_add(1, Ordering::Relaxed);
            let took = !self.shared.held.swap(true, Ordering::AcqRel);
            (took, worker.progress())
        });
        let Some((took, progressed)) = result else {
            return false;
        };
        if took {
            // It may be sleeping on the sockets.
            self.shared.wake();
        }
        progressed
    }

    fn is_held(&self) -> bool {
        self.shared.held.load(Ordering::Relaxed)
    }

    fn hand_back(&self) {
        if self.is_held() && self.shared.held.swap(false, Ordering::AcqRel) {
            self.shared.wake();
        }
    }

    fn finish(&self) {
        if !self.is_held() {
            return;
        }
        let drained = self.with(|worker| {
            while worker.progress() {}
            worker.is_drained()
        });
        if drained != Some(true) {
            self.hand_back();
        }
    }
}

/// Inline progress on all connections of a rank.
pub(crate) struct InlineProgress {
    pub threads: Vec<ThreadProgress>,
    /// Whether the proxy threads have cores of their own.
    pub spare_cores: bool,
}

impl Progress for InlineProgress {
    fn make_progress(&self) -> bool {
        let mut progressed = false;
        for thread in &self.threads {
            progressed |= thread.make_progress();
        }
        progressed
    }

    fn hand_back(&self) {
        for thread in &self.threads {
            thread.hand_back();
        }
    }

    fn finish(&self) {
        for thread in &self.threads {
            thread.finish();
        }
    }

    fn shares_cores(&self) -> bool {
        !self.spare_cores
    }
}

impl Ring for InlineProgress {
    /// Sends what was posted while it is in the caches. Threads are not woken while the engine
    /// drives their connections.
    fn ring(&self) {
        let held = self.threads.iter().filter(|it| it.is_held());
        for thread in held {
            thread.make_progress();
        }
    }
}

impl fmt::Debug for InlineProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InlineProgress").finish_non_exhaustive()
    }
}
