//! Signals during waits: Python's handlers run in the thread that waits, as in its own calls.

use std::cell::RefCell;
use std::time::Duration;

use pyo3::{PyErr, Python};

/// Longest time between two looks at signals while a thread waits for work.
pub const LOOK: Duration = Duration::from_millis(100);

thread_local! {
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Runs the handlers of signals that have arrived. Returns `true` if one raised an exception,
/// which [`take`] returns. Threads other than the main one have no signals.
pub fn ask() -> bool {
    let checked = Python::try_attach(|py| py.check_signals());
    match checked {
        Some(Err(raised)) => {
            RAISED.with_borrow_mut(|it| *it = Some(raised));
            true
        }
        Some(Ok(())) | None => false,
    }
}

/// The exception that a signal handler raised in this thread since the last call.
pub fn take() -> Option<PyErr> {
    RAISED.with_borrow_mut(Option::take)
}
