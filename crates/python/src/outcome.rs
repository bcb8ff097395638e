//! The end of work.

use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use toporing::communicator::{Code, Fault};

use crate::held::HeldComm;
use crate::signals;

/// How work ended. One thread at a time asks the communicator, which says each error once.
pub struct Outcome {
    comm: Weak<HeldComm>,
    /// Those whose ends are not known, and the error of the others.
    asked: Mutex<(Vec<u64>, Result<(), Fault>)>,
    state: Mutex<State>,
    changed: Condvar,
}

/// The knowledge of the outcome.
enum State {
    /// Nobody asks the communicator.
    Open,
    /// A thread asks.
    Asked,
    /// It is done.
    Done(Result<(), Fault>),
}

impl Outcome {
    /// The outcome of these numbers, which are of one communicator.
    pub fn new(comm: &Arc<HeldComm>, numbers: Vec<u64>) -> Self {
        Self {
            comm: Arc::downgrade(comm),
            asked: Mutex::new((numbers, Ok(()))),
            state: Mutex::new(State::Open),
            changed: Condvar::new(),
        }
    }

    /// Waits until it is done or the time is over. `None` for the time: no limit; `None` returned:
    /// not done.
    pub fn wait(&self, longest: Option<Duration>) -> Option<Result<(), Fault>> {
        let until = longest.map(|it| Instant::now() + it);
        let left = || until.map(|it| it.saturating_duration_since(Instant::now()));
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match &*state {
                State::Done(done) => return Some(done.clone()),
                State::Open => break,
                State::Asked => {}
            }
            let left = left().unwrap_or(signals::LOOK);
            if left.is_zero() {
                return None;
            }
            let woken = self.changed.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        *state = State::Asked;
        drop(state);
        let done = self.ask(left);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = match &done {
            Some(done) => State::Done(done.clone()),
            None => State::Open,
        };
        self.changed.notify_all();
        done
    }

    /// Asks the communicator about each number.
    fn ask(&self, left: impl Fn() -> Option<Duration>) -> Option<Result<(), Fault>> {
        let Some(comm) = self.comm.upgrade() else {
            // Closing waits for everything that was started.
            return Some(Ok(()));
        };
        if let Err(fault) = comm.check_process() {
            return Some(Err(fault));
        }
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let (numbers, done) = &mut *asked;
        while let Some(number) = numbers.last() {
            match comm.shared.await_job(*number, left()) {
                Ok(Code::Pending) => return None,
                Ok(_) => {}
                Err(fault) => *done = Err(fault),
            }
            numbers.pop();
        }
        Some(done.clone())
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        let comm = self.comm.upgrade();
        // In a forked child its locks may be those of threads that are not there.
        let Some(comm) = comm.filter(|it| it.check_process().is_ok()) else {
            return;
        };
        let asked = self.asked.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut queue = comm.shared.queue();
        asked.0.iter().for_each(|number| queue.forget(*number));
    }
}
