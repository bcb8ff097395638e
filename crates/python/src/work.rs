//! Started work, as an object.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use toporing::communicator::{Code, Fault};

use crate::error::exception;
use crate::held::HeldComm;
use crate::kept::Kept;
use crate::notifier::{Notifier, give_turn};
use crate::outcome::Outcome;
use crate::signals;

/// Work that was started. Any thread may wait for it.
#[pyclass(frozen, module = "toporing._native")]
pub struct Work {
    /// How it ended.
    pub outcome: Arc<Outcome>,
    comm: Weak<HeldComm>,
    notifier: Arc<Notifier>,
    /// The memory that it uses, among that of others.
    kept: Arc<Kept>,
    /// The rank from which it received last.
    source: Option<Arc<AtomicU32>>,
}

impl Work {
    /// The work with these numbers.
    pub fn new(
        comm: &Arc<HeldComm>,
        notifier: &Arc<Notifier>,
        kept: &Arc<Kept>,
        numbers: Vec<u64>,
    ) -> Self {
        Self {
            outcome: Arc::new(Outcome::new(comm, numbers)),
            comm: Arc::downgrade(comm),
            notifier: Arc::clone(notifier),
            kept: Arc::clone(kept),
            source: None,
        }
    }

    /// Says where its source is stored when it is done.
    pub fn stores(mut self, source: &Arc<AtomicU32>) -> Self {
        self.source = Some(Arc::clone(source));
        self
    }

    /// Waits, and frees the memory of work that is done. Returns whether it is done.
    ///
    /// A signal handler that raises an exception, such as that of Ctrl-C, aborts the communicator.
    pub fn await_or_abort(&self, py: Python<'_>, longest: Option<Duration>) -> PyResult<bool> {
        let done = py.detach(|| self.wait_or_abort(longest));
        self.kept.free_done();
        done
    }

    /// Waits in slices, and looks at signals in between.
    fn wait_or_abort(&self, longest: Option<Duration>) -> PyResult<bool> {
        let until = longest.map(|it| Instant::now() + it);
        loop {
            let left = until.map(|it| it.saturating_duration_since(Instant::now()));
            let slice = left.map_or(signals::LOOK, |it| it.min(signals::LOOK));
            match self.outcome.wait(Some(slice)) {
                Some(done) => return done.map(|()| true).map_err(exception),
                None if left.is_some_and(|it| it <= slice) => return Ok(false),
                None => {}
            }
            if signals::ask() {
                if let Some(comm) = self.comm.upgrade() {
                    let _ = comm.abort();
                }
                if let Some(raised) = signals::take() {
                    return Err(raised);
                }
            }
        }
    }
}

#[pymethods]
impl Work {
    /// Waits until it is done, or for some seconds. Returns whether it is done.
    ///
    /// A signal handler that raises an exception, such as that of Ctrl-C, aborts the communicator.
    #[pyo3(signature = (seconds=None))]
    fn wait(&self, py: Python<'_>, seconds: Option<f64>) -> PyResult<bool> {
        let longest = seconds.map(|it| Duration::try_from_secs_f64(it).unwrap_or_default());
        give_turn();
        self.await_or_abort(py, longest)
    }

    /// Whether it is done, with or without an error.
    fn done(&self) -> bool {
        let is_done = self.outcome.wait(Some(Duration::ZERO)).is_some();
        if is_done {
            self.kept.free_done();
        }
        is_done
    }

    /// The rank from which it received, if it is done and did.
    fn source(&self) -> Option<u32> {
        let source = self.source.as_ref().filter(|_| self.done())?;
        let source = source.load(Ordering::Relaxed);
        (source != u32::MAX).then_some(source)
    }

    /// The text of its error, if it is done and has one.
    fn error(&self) -> Option<String> {
        let done = self.outcome.wait(Some(Duration::ZERO))?;
        done.err().map(|fault| fault.text)
    }

    /// Calls a function when it is done, from another thread, with the text of its error or
    /// `None`.
    fn then(&self, function: Py<PyAny>) -> PyResult<()> {
        let outcome = Arc::clone(&self.outcome);
        match self.notifier.add(outcome, function) {
            true => Ok(()),
            false => Err(exception(Fault::new(Code::System, "no thread can start"))),
        }
    }
}
