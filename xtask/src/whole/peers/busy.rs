//! Threads that compute while programs are timed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Threads that compute until this is dropped.
pub(super) struct Busy(Arc<AtomicBool>);

impl Busy {
    /// Starts `threads` threads. They are in this process's session, as are the programs that it
    /// starts, so the kernel shares the cores equally among all.
    pub(super) fn start(threads: usize) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        for _ in 0..threads {
            let over = Arc::clone(&over);
            std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(over)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
