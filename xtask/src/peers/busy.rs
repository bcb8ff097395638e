//! Programs that compute beside those that are timed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Threads that compute without end until this is dropped.
pub struct Busy(Arc<AtomicBool>);

impl Busy {
    /// Starts so many. They belong to this process's session, and the programs that it starts do too, so the kernel
    /// shares the cores among all of them alike.
    pub fn start(threads: usize) -> Self {
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
