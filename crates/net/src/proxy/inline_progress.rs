//! Inline progress: an engine that waits drives the NICs' FIFOs itself, in place of the proxy threads.
//!
//! Waking a proxy thread for each short message, on each side, would cost more than the message. While an engine makes
//! progress inline, the proxy thread does not poll the sockets. It checks once a millisecond whether the engine still does,
//! and serves the connections of other ranks when they wake it. The engine hands the NICs back before it sleeps, or when a
//! send is left unfinished.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, TryLockError};

use executor::network::Progress;
use shared_memory::Ring;

use super::queue::Shared;
use super::worker::Worker;

/// Inline progress on one NIC.
pub(crate) struct NicProgress {
    shared: Arc<Shared>,
    worker: Arc<Mutex<Worker>>,
}

impl NicProgress {
    pub(super) const fn new(shared: Arc<Shared>, worker: Arc<Mutex<Worker>>) -> Self {
        Self { shared, worker }
    }

    fn with<T>(&self, then: impl FnOnce(&mut Worker) -> T) -> Option<T> {
        match self.worker.try_lock() {
            Ok(mut worker) => Some(then(&mut worker)),
            Err(TryLockError::Poisoned(worker)) => Some(then(&mut worker.into_inner())),
            // The thread makes progress itself.
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn go_on(&self) -> bool {
        let went = self.with(|worker| {
            self.shared.helped.fetch_add(1, Ordering::Relaxed);
            let took = !self.shared.held.swap(true, Ordering::AcqRel);
            (took, worker.progress())
        });
        let Some((took, went)) = went else {
            return false;
        };
        if took {
            // It may sleep on the sockets.
            self.shared.wake();
        }
        went
    }

    fn is_held(&self) -> bool {
        self.shared.held.load(Ordering::Relaxed)
    }

    fn let_go(&self) {
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
            self.let_go();
        }
    }
}

/// Inline progress on all NICs of a rank.
pub(crate) struct InlineProgress {
    pub nics: Vec<NicProgress>,
    /// Whether the NICs' threads have cores of their own.
    pub spare_cores: bool,
}

impl Progress for InlineProgress {
    fn go_on(&self) -> bool {
        let mut went = false;
        for nic in &self.nics {
            went |= nic.go_on();
        }
        went
    }

    fn let_go(&self) {
        for nic in &self.nics {
            nic.let_go();
        }
    }

    fn finish(&self) {
        for nic in &self.nics {
            nic.finish();
        }
    }

    fn is_alone(&self) -> bool {
        !self.spare_cores
    }
}

impl Ring for InlineProgress {
    /// The threads are not woken while the engine has the nic. What was posted goes out while it is in the caches.
    fn ring(&self) {
        let held = self.nics.iter().filter(|it| it.is_held());
        for nic in held {
            nic.go_on();
        }
    }
}

impl fmt::Debug for InlineProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InlineProgress").finish_non_exhaustive()
    }
}
