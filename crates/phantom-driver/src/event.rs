//! Events.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

#[derive(Debug, Default)]
struct State {
    /// Number of records submitted and done.
    recorded: u64,
    done: u64,
    time: Option<Instant>,
    captured: bool,
}

/// An event.
#[derive(Debug)]
pub struct Event {
    /// The device of its context.
    pub device: usize,
    /// Whether it has no time (`CU_EVENT_DISABLE_TIMING`).
    pub untimed: bool,
    state: Mutex<State>,
    changed: Condvar,
}

impl Event {
    /// An event of a device.
    pub fn new(device: usize, untimed: bool) -> Self {
        Self {
            device,
            untimed,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits a record. Returns its number.
    pub fn record(&self) -> u64 {
        let mut state = self.lock();
        state.captured = false;
        state.recorded += 1;
        state.recorded
    }

    /// Marks that the last record was captured.
    pub fn capture(&self) {
        self.lock().captured = true;
    }

    /// Whether the last record was captured.
    pub fn is_captured(&self) -> bool {
        self.lock().captured
    }

    /// A record was reached.
    pub fn reach(&self, number: u64) {
        let mut state = self.lock();
        state.done = state.done.max(number);
        state.time = Some(Instant::now());
        self.changed.notify_all();
    }

    /// Whether it was recorded at all.
    pub fn was_recorded(&self) -> bool {
        self.lock().recorded > 0
    }

    /// Whether the last record was reached.
    pub fn is_reached(&self) -> bool {
        let state = self.lock();
        state.done == state.recorded
    }

    /// Blocks until the records so far are reached.
    pub fn wait(&self) {
        let mut state = self.lock();
        let wanted = state.recorded;
        while state.done < wanted {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// When the last record was reached.
    pub fn time(&self) -> Option<Instant> {
        self.lock().time
    }
}
