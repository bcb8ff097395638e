//! Calls Python functions when work is done, for futures.
//!
//! One thread at a time has the turn: it takes the next notice, waits until its work is done, and
//! calls the function. A function may itself wait for a later future: then it gives its turn to
//! another thread ([`give_turn`]). If it waits where nobody notices, another thread takes the turn
//! after `PATIENCE`.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::{Py, PyAny, Python, pyfunction};

use crate::outcome::Outcome;

/// How long a function may keep its turn. Functions run one after the other, so that all ranks
/// start their collectives in one order; a thread that computes may keep them from the interpreter.
const PATIENCE: Duration = Duration::from_secs(1);

/// Most threads of a communicator, and so most functions that wait for each other.
const MOST_THREADS: usize = 64;

/// Finished work, and the function that gets the text of its error or `None`.
type Notice = (Arc<Outcome>, Py<PyAny>);

/// The threads that call, once there is something to call. They end when it is dropped and
/// everything was called.
#[derive(Default)]
pub struct Notifier(Arc<NotifierState>);

/// The state that the threads share.
#[derive(Default)]
struct NotifierState {
    state: Mutex<State>,
    /// Notices came, the turn is free, or a function is called.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    notices: VecDeque<Notice>,
    /// Turns that were taken; the last one is current.
    turns: u64,
    /// Whether a thread has the current turn.
    is_taken: bool,
    /// Since when the thread with the turn is in a function.
    calls_since: Option<Instant>,
    threads: usize,
    /// Threads without a turn that are not in a function.
    standby: usize,
    is_closed: bool,
}

impl NotifierState {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

thread_local! {
    /// The turn of a thread that calls a function.
    static TURN: RefCell<Option<(Arc<NotifierState>, u64)>> = const { RefCell::new(None) };
}

/// Lets another thread call the functions behind the one that this thread calls, if it calls one:
/// it is about to wait.
#[pyfunction]
pub fn give_turn() {
    TURN.with_borrow_mut(|own| {
        if let Some((shared, turn)) = own.take() {
            shared.lock().end_turn(turn);
            shared.changed.notify_one();
        }
    });
}

impl State {
    /// Ends a turn, unless another one has begun.
    const fn end_turn(&mut self, turn: u64) {
        if self.turns == turn {
            self.is_taken = false;
            self.calls_since = None;
        }
    }
}

impl Notifier {
    /// Calls `function` when the work is done. Returns `false` if no thread can start.
    pub fn add(&self, outcome: Arc<Outcome>, function: Py<PyAny>) -> bool {
        let mut state = self.0.lock();
        if state.threads == 0 && !start(&self.0, &mut state) {
            return false;
        }
        state.notices.push_back((outcome, function));
        drop(state);
        self.0.changed.notify_one();
        true
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.changed.notify_all();
    }
}

/// Starts a thread. Returns `false` if there are too many or the system has none.
fn start(shared: &Arc<NotifierState>, state: &mut State) -> bool {
    if state.threads == MOST_THREADS {
        return false;
    }
    let own = Arc::clone(shared);
    let thread = std::thread::Builder::new().name("topo notifier".to_owned());
    let started = thread.spawn(move || serve(&own)).is_ok();
    state.threads += usize::from(started);
    state.standby += usize::from(started);
    started
}

fn serve(shared: &Arc<NotifierState>) {
    while let Some((turn, (outcome, function))) = take_turn(shared) {
        let done = outcome.wait(None);
        let error = done.and_then(Result::err).map(|it| it.text);
        // The interpreter may be ending; then nobody waits for the function.
        let _ = Python::try_attach(|py| {
            // Not before: a thread that computes keeps the others waiting for the interpreter.
            begin_call(shared);
            TURN.set(Some((Arc::clone(shared), turn)));
            if let Err(raised) = function.call1(py, (error,)) {
                raised.write_unraisable(py, None);
            }
            drop(function);
        });
        TURN.set(None);
        let mut state = shared.lock();
        state.end_turn(turn);
        state.standby += 1;
    }
}

/// Waits for the turn and a notice. `None`: this thread is not needed any more.
fn take_turn(shared: &NotifierState) -> Option<(u64, Notice)> {
    let mut state = shared.lock();
    loop {
        // How long the thread with the turn may keep it.
        let left = match (state.is_taken, state.calls_since) {
            (false, _) => Some(Duration::ZERO),
            (true, Some(since)) => Some(PATIENCE.saturating_sub(since.elapsed())),
            (true, None) => None,
        };
        if left == Some(Duration::ZERO)
            && let Some(notice) = state.notices.pop_front()
        {
            state.turns += 1;
            state.is_taken = true;
            state.calls_since = None;
            state.standby -= 1;
            return Some((state.turns, notice));
        }
        let is_over = state.is_closed && state.notices.is_empty();
        if is_over || state.standby > 2 {
            state.threads -= 1;
            state.standby -= 1;
            return None;
        }
        state = match left.filter(|_| !state.notices.is_empty()) {
            Some(left) => {
                let woken = shared.changed.wait_timeout(state, left);
                woken.unwrap_or_else(PoisonError::into_inner).0
            }
            None => {
                let woken = shared.changed.wait(state);
                woken.unwrap_or_else(PoisonError::into_inner)
            }
        };
    }
}

/// Says that the thread with the turn is in a function, so that another may take the turn.
fn begin_call(shared: &Arc<NotifierState>) {
    let mut state = shared.lock();
    state.calls_since = Some(Instant::now());
    if state.standby == 0 {
        // Without another thread the notices behind it wait until the function is done.
        start(shared, &mut state);
    }
    let wakes = !state.notices.is_empty();
    drop(state);
    if wakes {
        shared.changed.notify_one();
    }
}
