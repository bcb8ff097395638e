//! What the kernel does for waiting: sleeping on a word, and memory barriers on behalf of others.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence, fence};
use std::time::Duration;

use rustix::thread::futex::{self, Flags, Timespec};
use rustix::thread::{MembarrierCommand, membarrier, sched_yield};

use super::Word;

/// Sleeps while the low half of the word has this value, until woken, or for `longest`, or for no reason.
pub fn sleep(word: &Word, value: u32, longest: Duration) {
    let timeout = Timespec {
        tv_sec: longest.as_secs() as i64,
        tv_nsec: longest.subsec_nanos().into(),
    };
    // Whatever the kernel answers (woken, changed, interrupted, late), the caller looks again.
    let _ = futex::wait(low_half(word), Flags::empty(), value, Some(&timeout));
}

/// Wakes the one that sleeps on the word.
pub fn wake(word: &Word) {
    // It can only fail for addresses that are not mapped.
    let _ = futex::wake(low_half(word), Flags::empty(), 1);
}

/// The half of a word that the kernel compares.
fn low_half(word: &Word) -> &AtomicU32 {
    let halves = std::ptr::from_ref(&**word).cast::<AtomicU32>();
    let low = if cfg!(target_endian = "big") { 1 } else { 0 };
    // SAFETY: the half lies in the word, is aligned, and is borrowed as long. The kernel alone reads it.
    unsafe { &*halves.add(low) }
}

/// Lets another thread run.
pub fn yield_now() {
    sched_yield();
}

/// Whether this process takes part in barriers that another thread makes for it; asks the kernel at the first call.
///
/// A process that does needs no fence between a store and a later load if the other side of the question makes a
/// barrier for all between its own store and load.
pub fn has_asymmetric_fences() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok())
}

/// The fence of the rare side: after it, either the frequent side's store is seen, or that side sees ours.
pub fn heavy_fence(asymmetric: bool) {
    fence(Ordering::SeqCst);
    if asymmetric {
        // Cannot fail: it was registered for.
        let done = membarrier(MembarrierCommand::GlobalExpedited);
        debug_assert!(done.is_ok());
    }
}

/// The fence of the frequent side, which costs nothing if the rare side makes a barrier for it.
#[inline(always)]
pub fn light_fence(asymmetric: bool) {
    if asymmetric {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}
