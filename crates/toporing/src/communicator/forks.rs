//! Forks of this process, as libc counts them. A process id would say the same, but asking for it
//! is a system call.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks lie between this process and the first of its ancestors that counted.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// How many forks there were, to be compared with a later count in the same process.
pub fn count() -> u32 {
    static COUNTS: Once = Once::new();
    COUNTS.call_once(|| {
        // SAFETY: the function only adds to an atomic number, as a handler in a child may.
        let failed = unsafe { libc::pthread_atfork(None, None, Some(note)) };
        // Only for lack of memory, which ends the process elsewhere.
        debug_assert_eq!(failed, 0);
    });
    FORKS.load(Ordering::Relaxed)
}

/// Runs in the child of a fork.
extern "C" fn note() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}
