//! Inline progress: an engine that waits drives the connections in place of the proxy threads.
//!
//! Waking a proxy thread for each short message, on each side, would cost more than the message.
//! While an engine makes progress inline, the proxy thread does not poll the sockets. It checks now
//! and then whether the engine still does, and it forwards for other ranks when they wake it. An
//! engine that waits only for other hosts sleeps on the sockets itself. It hands the connections
//! back before it sleeps elsewhere, or when a send is left unfinished.

use std::fmt;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::Duration;

use executor::network::Progress;
use shared_memory::Ring;

use super::queue::ProxyState;
use super::readiness::Readiness;
use super::worker::{Pass, Worker, lock};
use crate::ended::NEWS_LOOK;

/// Inline progress on the connections of one proxy thread.
pub(crate) struct ThreadProgress {
    shared: Arc<ProxyState>,
    worker: Arc<Mutex<Worker>>,
}

impl ThreadProgress {
    pub(super) const fn new(shared: Arc<ProxyState>, worker: Arc<Mutex<Worker>>) -> Self {
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

    /// Keeps the thread from driving the engine's connections.
    fn hold(&self) {
        self.shared.helped.fetch_add(1, Ordering::Relaxed);
        if !self.shared.held.swap(true, Ordering::AcqRel) {
            // It may be sleeping on the sockets.
            self.shared.wake();
        }
    }

    fn make_progress(&self, many: &AtomicBool) -> bool {
        let helped = self.with(|worker| {
            if worker.has_many() {
                many.store(true, Ordering::Relaxed);
            }
            worker.help(Pass::Ready)
        });
        let Some(progressed) = helped else {
            return false;
        };
        self.hold();
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
            while worker.help(Pass::Sends) {}
            worker.is_drained()
        });
        if drained != Some(true) {
            self.hand_back();
        }
    }
}

/// Inline progress on all connections of a rank.
pub(crate) struct InlineProgress {
    pub(super) threads: Vec<ThreadProgress>,
    pub(super) readiness: Arc<Readiness>,
    /// Whether asking which connections are ready takes less than reading from all.
    pub(super) many: AtomicBool,
    /// Whether the proxy threads have cores of their own.
    pub(super) spare_cores: bool,
    /// Whether there are so many ranks on a core that a waiting one should sleep at once.
    pub(super) crowded: bool,
}

impl InlineProgress {
    /// The descriptor that ends a sleep when it is written to.
    pub(crate) fn alarm(&self) -> RawFd {
        self.readiness.alarm()
    }

    /// Sleeps until connections are ready, for at most `longest`.
    fn await_ready(&self, longest: Duration) {
        self.readiness.wait(longest, |ready| {
            if let Some(thread) = self.threads.get(ready.place.thread) {
                lock(&thread.worker).set_ready(&ready);
            }
        });
    }
}

impl Progress for InlineProgress {
    fn make_progress(&self) -> bool {
        if self.many.load(Ordering::Relaxed) {
            self.await_ready(Duration::ZERO);
        }
        let mut progressed = false;
        for thread in &self.threads {
            progressed |= thread.make_progress(&self.many);
        }
        progressed
    }

    fn prepare_sleep(&self) -> Option<bool> {
        let mut progressed = false;
        for thread in &self.threads {
            let mut worker = lock(&thread.worker);
            progressed |= worker.help(Pass::Ready);
            if !worker.is_watched() {
                return None;
            }
            thread.hold();
        }
        Some(progressed)
    }

    fn sleep(&self, longest: Duration) {
        let awaits_news = |it: &ThreadProgress| lock(&it.worker).awaits_news();
        let longest = match self.threads.iter().any(awaits_news) {
            true => longest.min(NEWS_LOOK),
            false => longest,
        };
        self.await_ready(longest);
        for thread in &self.threads {
            thread.make_progress(&self.many);
        }
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

    fn is_crowded(&self) -> bool {
        self.crowded
    }
}

impl Ring for InlineProgress {
    /// Sends what was posted while it is in the caches. Threads are not woken while the engine
    /// drives their connections.
    fn ring(&self) {
        let held = self.threads.iter().filter(|it| it.is_held());
        for thread in held {
            thread.with(|worker| worker.help(Pass::Sends));
        }
    }
}

impl fmt::Debug for InlineProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InlineProgress").finish_non_exhaustive()
    }
}
