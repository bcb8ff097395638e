//! Carrying in the place of a NIC's thread.
//!
//! An engine that waits for a short message would wake the thread and be woken by it, for each message, on each side. It
//! takes the wheel instead: from then on the thread does not look at the sockets, but only now and then whether the engine
//! still does, and at what it carries for other ranks when those wake it. The engine gives the wheel back when it goes to sleep, or when it leaves something behind that was not
//! sent.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, TryLockError};

use executor::network::Progress;

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

    fn let_go(&self) {
        if self.shared.held.swap(false, Ordering::AcqRel) {
            self.shared.wake();
        }
    }

    fn finish(&self) {
        if !self.shared.held.load(Ordering::Acquire) {
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
pub(crate) struct Wheels(pub Vec<Wheel>);

impl Progress for Wheels {
    fn go_on(&self) -> bool {
        self.0.iter().fold(false, |went, it| it.go_on() || went)
    }

    fn let_go(&self) {
        for wheel in &self.0 {
            wheel.let_go();
        }
    }

    fn finish(&self) {
        for wheel in &self.0 {
            wheel.finish();
        }
    }
}
