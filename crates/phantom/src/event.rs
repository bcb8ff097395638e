//! Events.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::call;

/// A program that asked for an event for so long in vain has given its launch up.
const GIVEN_UP: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct State {
    /// Number of records submitted.
    recorded: u64,
    /// Those of them that are not reached. A later one, on another stream, may be reached before.
    pending: BTreeSet<u64>,
    time: Option<Instant>,
    captured: bool,
    /// The first and the last query that found the last record not reached.
    in_vain: Option<(Instant, Instant)>,
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
        state.in_vain = None;
        state.recorded += 1;
        let number = state.recorded;
        state.pending.insert(number);
        number
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
        state.pending.remove(&number);
        if number == state.recorded {
            state.time = Some(Instant::now());
        }
        self.changed.notify_all();
    }

    /// Whether it was recorded at all.
    pub fn was_recorded(&self) -> bool {
        self.lock().recorded > 0
    }

    /// Whether the last record was reached.
    pub fn is_reached(&self) -> bool {
        let state = self.lock();
        !state.pending.contains(&state.recorded)
    }

    /// A program asks whether the last record was reached.
    pub fn query(&self) -> bool {
        let mut state = self.lock();
        let now = Instant::now();
        let since = state.in_vain.map_or(now, |(first, _)| first);
        let reached = !state.pending.contains(&state.recorded);
        state.in_vain = (!reached).then_some((since, now));
        reached
    }

    /// Whether the program that uses it gave up what it waits for.
    pub fn is_given_up(&self) -> bool {
        let in_vain = self.lock().in_vain;
        in_vain.is_some_and(|(first, last)| last.duration_since(first) >= GIVEN_UP)
    }

    /// The number of the last record; 0: none.
    pub fn last(&self) -> u64 {
        self.lock().recorded
    }

    /// Blocks until a record is reached.
    pub fn wait_for(&self, number: u64) {
        let mut state = self.lock();
        while state.pending.contains(&number) {
            call::waits();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_record_of_another_stream_reaches_no_earlier_one() {
        let event = Event::new(0, true);
        let (first, second) = (event.record(), event.record());
        event.reach(second);
        assert!(event.is_reached());
        assert!(event.lock().pending.contains(&first));
        event.reach(first);
        event.wait_for(first);
        assert!(event.lock().pending.is_empty());
    }
}
