//! Memory that started work uses.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;

use crate::outcome::Outcome;

/// Memory of started work: an object that owns it, and the place of a transfer's source.
pub type Keep = (Option<Py<PyAny>>, Arc<AtomicU32>);

/// The memory of a communicator's started work, held until that is done.
#[derive(Default)]
pub struct Kept(Mutex<Vec<(Arc<Outcome>, Keep)>>);

impl Kept {
    /// Holds memory until its work is done.
    pub fn hold(&self, outcome: Arc<Outcome>, keep: Keep) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push((outcome, keep));
    }

    /// Frees the memory of work that is done.
    pub fn free_done(&self) {
        let is_done = |(outcome, _): &mut (Arc<Outcome>, Keep)| {
            let done = outcome.wait(Some(Duration::ZERO));
            done.is_some()
        };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let done: Vec<_> = kept.extract_if(.., is_done).collect();
        drop(kept);
        // Objects may run code of Python when they end, and other threads with it.
        drop(done);
    }
}
