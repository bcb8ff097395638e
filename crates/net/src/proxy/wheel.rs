//! Carrying in the place of a NIC's thread.
//!
//! An engine that waits for a short message would wake the thread and be woken by it, for each message, on each side. It
//! takes the wheel instead: from then on the thread does not look at the sockets, but only now and then whether the engine
//! still does, and at what it carries for other ranks when those wake it. The engine gives the wheel back when it goes to sleep, or when it leaves something behind that was not
//! sent.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, TryLockError};

use executor::network::Progress;
use shared_memory::Ring;

use super::desk::Shared;
use super::worker::Worker;

/// The wheel of one NIC.
pub(crate) struct Wheel {
    shared: Arc<Shared>,
    worker: Arc<Mutex<Worker>>,
}

impl Wheel {
    pub(super) const fn new(shared: Arc<Shared>, worker: Arc<Mutex<Worker>>) -> Self {
        Self { shared, worker }
    }

    fn with<T>(&self, then: impl FnOnce(&mut Worker) -> T) -> Option<T> {
        match self.worker.try_lock() {
            Ok(mut worker) => Some(then(&mut worker)),
            Err(TryLockError::Poisoned(worker)) => Some(then(&mut worker.into_inner())),
            // The thread is at it.
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn go_on(&self) -> bool {
        let went = self.with(|worker| {
            self.shared.helped.fetch_add(1, Ordering::Relaxed);
            let took = !self.shared.held.swap(true, Ordering::AcqRel);
            (took, worker.go_on())
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
            while worker.go_on() {}
            worker.is_drained()
        });
        if drained != Some(true) {
            self.let_go();
        }
    }
}

/// The wheels of all NICs of a rank.
pub(crate) struct Wheels {
    pub wheels: Vec<Wheel>,
    /// Whether the NICs' threads have cores of their own.
    pub spare_cores: bool,
}

impl Progress for Wheels {
    fn go_on(&self) -> bool {
        let mut went = false;
        for wheel in &self.wheels {
            went |= wheel.go_on();
        }
        went
    }

    fn let_go(&self) {
        for wheel in &self.wheels {
            wheel.let_go();
        }
    }

    fn finish(&self) {
        for wheel in &self.wheels {
            wheel.finish();
        }
    }

    fn is_alone(&self) -> bool {
        !self.spare_cores
    }
}

impl Ring for Wheels {
    /// The threads are not woken while the engine has the wheel. What was posted goes out while it is in the caches.
    fn ring(&self) {
        let held = self.wheels.iter().filter(|it| it.is_held());
        for wheel in held {
            wheel.go_on();
        }
    }
}

impl fmt::Debug for Wheels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wheels").finish_non_exhaustive()
    }
}
