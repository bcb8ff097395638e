//! Interrupts: a thread that waits for other ranks asks its caller whether it should give up.
//!
//! The caller is an interpreter that must look at signals from time to time, in the thread that
//! runs the collective.

use std::cell::Cell;

thread_local! {
    static ASK: Cell<Option<fn() -> bool>> = const { Cell::new(None) };
}

/// Runs `body`. While this thread waits for other ranks there, it calls `ask` about every 50 ms;
/// if that returns `true`, the wait ends with [`Error::Interrupted`](crate::Error::Interrupted).
pub fn while_asking<R>(ask: fn() -> bool, body: impl FnOnce() -> R) -> R {
    /// Restores what was there, also after a panic.
    struct Restore(Option<fn() -> bool>);
    impl Drop for Restore {
        fn drop(&mut self) {
            ASK.set(self.0);
        }
    }
    let _restore = Restore(ASK.replace(Some(ask)));
    body()
}

/// Asks, if this thread has somebody to ask.
pub(crate) fn is_wanted() -> bool {
    ASK.get().is_some_and(|ask| ask())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_body_asks() {
        assert!(!is_wanted());
        assert!(while_asking(|| true, is_wanted));
        assert!(!while_asking(|| true, || while_asking(|| false, is_wanted)));
        assert!(!is_wanted());
    }
}
