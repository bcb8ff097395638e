//! Waiting with the kernel's help: sleeping on a word, and memory barriers for other threads.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence, fence};
use std::time::Duration;

use rustix::thread::futex::{self, Flags, Timespec};
use rustix::thread::{MembarrierCommand, membarrier, sched_yield};

use super::Word;

/// Sleeps while the low half of the word has this value, until woken, for at most `longest`; may
/// also return early.
pub fn sleep(word: &Word, value: u32, longest: Duration) {
    let timeout = Timespec {
        tv_sec: longest.as_secs() as i64,
        tv_nsec: longest.subsec_nanos().into(),
    };
    // Whatever the result (woken, changed, interrupted, late), the caller checks again.
    let _ = futex::wait(low_half(word), Flags::empty(), value, Some(&timeout));
}

/// Wakes the thread that sleeps on the word.
pub fn wake(word: &Word) {
    // Fails only for addresses that are not mapped.
    let _ = futex::wake(low_half(word), Flags::empty(), 1);
}

/// The half of a word that the kernel compares.
fn low_half(word: &Word) -> &AtomicU32 {
    let halves = std::ptr::from_ref(&**word).cast::<AtomicU32>();
    let low = if cfg!(target_endian = "big") { 1 } else { 0 };
    // SAFETY: the half is in the word, is aligned, and is borrowed as long. Only the kernel reads
    // it.
    unsafe { &*halves.add(low) }
}

/// Lets another thread run.
pub fn yield_now() {
    sched_yield();
}

/// Whether other threads can make barriers for this process; registers it at the first call.
///
/// If the other side makes such a barrier between its own store and load, this process needs no
/// fence between a store and a later load.
pub fn has_asymmetric_fences() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok())
}

/// The fence of the rare side: after it, this side sees the frequent side's store, or that side
/// sees this one's.
pub fn heavy_fence(asymmetric: bool) {
    fence(Ordering::SeqCst);
    if asymmetric {
        // Cannot fail after the registration.
        let done = membarrier(MembarrierCommand::GlobalExpedited);
        debug_assert!(done.is_ok());
    }
}

/// The fence of the frequent side, free if the rare side makes a barrier for it.
#[inline(always)]
pub fn light_fence(asymmetric: bool) {
    if asymmetric {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}
