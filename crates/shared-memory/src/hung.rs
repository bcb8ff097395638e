//! Calls of other people's libraries, which may never return: a driver whose GPU has fallen off the
//! bus, a net plug-in that waits for its fabric.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// Whether a thread of this process is in a call that was abandoned.
static ABANDONED: AtomicBool = AtomicBool::new(false);

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoReturn {
    /// It takes longer than this.
    Late(Duration),
    /// It panicked, or no thread can start.
    Failed(String),
}

impl fmt::Display for NoReturn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late(longest) => {
                write!(f, "it did not return within {} s", longest.as_secs_f32())
            }
            Self::Failed(why) => f.write_str(why),
        }
    }
}

/// Runs `call` on a thread of its own, and abandons both when `longest` is over.
///
/// # Errors
/// It is not done by then.
pub fn call_within<R: Send + 'static>(
    longest: Duration,
    call: impl FnOnce() -> R + Send + 'static,
) -> Result<R, NoReturn> {
    // No channel: one would register a thread-local value, for which the C library takes the
    // loader's lock, and the call may hang while it holds that.
    let result = Arc::new((Mutex::new(None), Condvar::new()));
    let of_thread = Arc::clone(&result);
    let thread = Builder::new().name("library".to_owned()).spawn(move || {
        let done = catch_unwind(AssertUnwindSafe(call));
        // Nobody takes the result of a call that was abandoned.
        *lock(&of_thread.0) = Some(done);
        of_thread.1.notify_one();
    });
    thread.map_err(|why| NoReturn::Failed(format!("no thread can start: {why}")))?;
    let waited = result
        .1
        .wait_timeout_while(lock(&result.0), longest, |it| it.is_none());
    let done = waited.unwrap_or_else(PoisonError::into_inner).0.take();
    match done {
        Some(done) => done.map_err(|_| NoReturn::Failed("it panicked".to_owned())),
        None => {
            ABANDONED.store(true, Ordering::Release);
            Err(NoReturn::Late(longest))
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the process with this status if a call was abandoned. What libraries do at an ordinary end
/// would wait for it: its thread may hold the loader's lock. What was printed must be flushed.
pub fn end_if_abandoned(status: u8) {
    if ABANDONED.load(Ordering::Acquire) {
        // SAFETY: it does not return, so nothing observes what it leaves.
        unsafe { libc::_exit(i32::from(status)) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_call_that_does_not_return_is_an_error() {
        let (open, gate) = channel::<()>();
        let longest = Duration::from_millis(1);
        let late = call_within(longest, move || gate.recv().is_ok());
        assert_eq!(late, Err(NoReturn::Late(longest)));
        drop(open);
        assert_eq!(call_within(Duration::from_secs(60), || 7), Ok(7));
        let panics: Result<(), _> = call_within(Duration::from_secs(60), || panic!("as planned"));
        assert_eq!(panics, Err(NoReturn::Failed("it panicked".to_owned())));
    }
}
