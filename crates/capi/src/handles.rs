//! Handles of communicators: numbers that are never given out twice, so that one that is no handle
//! any more, or never was, is an error.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use communicator::{Comm, Fault};

use crate::pointers::null;

/// The communicators of this process, by their handles.
static LIVE: LazyLock<RwLock<Live>> = LazyLock::new(RwLock::default);

#[derive(Default)]
struct Live {
    by_handle: HashMap<usize, Arc<Comm>>,
    /// How many handles were given out.
    given: usize,
}

/// The first handle: lower numbers are those of small integers.
const FIRST: usize = 1 << 20;

/// Distance between handles.
const STEP: usize = 16;

/// Keeps a communicator, and returns its handle.
pub fn keep(comm: Comm) -> *mut Comm {
    let mut live = LIVE.write().unwrap_or_else(PoisonError::into_inner);
    let handle = FIRST + STEP * live.given;
    live.given += 1;
    live.by_handle.insert(handle, Arc::new(comm));
    std::ptr::without_provenance_mut(handle)
}

/// The communicator of a handle.
///
/// # Errors
/// The handle is null, was destroyed, or never was one.
pub fn of(handle: *const Comm) -> Result<Arc<Comm>, Fault> {
    if handle.is_null() {
        return Err(null("comm"));
    }
    let live = LIVE.read().unwrap_or_else(PoisonError::into_inner);
    let found = live.by_handle.get(&handle.addr());
    found.cloned().ok_or_else(not_live)
}

/// Forgets a handle.
///
/// # Errors
/// Another thread did.
pub fn forget(handle: *const Comm) -> Result<Arc<Comm>, Fault> {
    let mut live = LIVE.write().unwrap_or_else(PoisonError::into_inner);
    live.by_handle.remove(&handle.addr()).ok_or_else(not_live)
}

fn not_live() -> Fault {
    Fault::invalid("comm is no communicator: topo_comm_destroy ended it, or it never was one")
}
