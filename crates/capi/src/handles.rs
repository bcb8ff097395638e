//! Handles of communicators: numbers that are never given out twice, so that one that is no handle
//! any more, or never was, is an error.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use rustc_hash::FxHashMap;
use toporing::communicator::{Code, Comm, Fault, forks};

use crate::pointers::null;

/// The communicators of a process. A fork may leave the lock taken by a thread that the child does
/// not have, so each process of a line of forks has a table of its own.
struct Table {
    /// Which process of the line has it.
    forks: u32,
    /// The first handle that it gives out; lower ones are those of its parents.
    first: usize,
    live: RwLock<FxHashMap<usize, Arc<Comm>>>,
}

/// The table of this process or, before it needs one, of its parent. Tables are never freed.
static TABLE: AtomicPtr<Table> = AtomicPtr::new(null_mut());

/// The next handle. Lower numbers than the first are those of small integers.
static NEXT: AtomicUsize = AtomicUsize::new(1 << 20);

/// Distance between handles.
const STEP: usize = 16;

/// The table of this process.
fn table() -> &'static Table {
    let forks = forks::count();
    loop {
        let found = TABLE.load(Ordering::Acquire);
        // SAFETY: it is null or a table that is never freed.
        if let Some(table) = unsafe { found.as_ref() }.filter(|it| it.forks == forks) {
            return table;
        }
        let own = Box::into_raw(Box::new(Table {
            forks,
            first: NEXT.load(Ordering::Relaxed),
            live: RwLock::default(),
        }));
        let changed = TABLE.compare_exchange(found, own, Ordering::AcqRel, Ordering::Acquire);
        if changed.is_err() {
            // SAFETY: nobody else has seen it.
            drop(unsafe { Box::from_raw(own) });
        }
    }
}

/// Keeps a communicator, and returns its handle.
pub fn keep(comm: Comm) -> *mut Comm {
    let table = table();
    let handle = NEXT.fetch_add(STEP, Ordering::Relaxed);
    let mut live = table.live.write().unwrap_or_else(PoisonError::into_inner);
    live.insert(handle, Arc::new(comm));
    std::ptr::without_provenance_mut(handle)
}

/// The communicator of a handle.
///
/// # Errors
/// The handle is null, was destroyed, never was one, or is that of a parent process.
pub fn of(handle: *const Comm) -> Result<Arc<Comm>, Fault> {
    if handle.is_null() {
        return Err(null("comm"));
    }
    let table = table();
    let live = table.live.read().unwrap_or_else(PoisonError::into_inner);
    let found = live.get(&handle.addr());
    found.cloned().ok_or_else(|| table.not_live(handle))
}

/// Forgets a handle.
///
/// # Errors
/// Another thread did, or it is that of a parent process.
pub fn forget(handle: *const Comm) -> Result<Arc<Comm>, Fault> {
    let table = table();
    let mut live = table.live.write().unwrap_or_else(PoisonError::into_inner);
    let found = live.remove(&handle.addr());
    found.ok_or_else(|| table.not_live(handle))
}

impl Table {
    fn not_live(&self, handle: *const Comm) -> Fault {
        let number = handle.addr();
        let is_parents = self.forks > 0 && (1 << 20..self.first).contains(&number);
        match is_parents && number.is_multiple_of(STEP) {
            true => Fault::new(
                Code::Forked,
                "the communicator belongs to a parent process, and this is a child of it that was forked later; make \
                 communicators after the fork",
            ),
            false => Fault::invalid(
                "comm is no communicator: topo_comm_destroy ended it, or it never was one",
            ),
        }
    }
}
