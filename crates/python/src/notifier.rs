//! Calls Python functions when work is done, for futures.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::{Py, PyAny, Python};

use crate::outcome::Outcome;

/// What is done, and the function that gets the text of its error or `None`.
type Notice = (Arc<Outcome>, Py<PyAny>);

/// The thread that calls, once there is something to call.
#[derive(Default)]
pub struct Notifier(Mutex<Option<Sender<Notice>>>);

impl Notifier {
    /// Calls `function` when the work is done. Returns `false` if no thread can start.
    pub fn add(&self, outcome: Arc<Outcome>, function: Py<PyAny>) -> bool {
        let mut sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.is_none() {
            let (own, notices) = channel();
            let thread = std::thread::Builder::new().name("topo notifier".to_owned());
            if thread.spawn(move || serve(&notices)).is_err() {
                return false;
            }
            *sender = Some(own);
        }
        let sent = sender.as_ref().map(|it| it.send((outcome, function)));
        matches!(sent, Some(Ok(())))
    }
}

fn serve(notices: &Receiver<Notice>) {
    for (outcome, function) in notices {
        let done = outcome.wait(None);
        let error = done.and_then(Result::err).map(|it| it.text);
        // The interpreter may be ending; then nobody waits for the function.
        let _ = Python::try_attach(|py| {
            if let Err(raised) = function.call1(py, (error,)) {
                raised.write_unraisable(py, None);
            }
        });
    }
}
