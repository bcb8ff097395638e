//! A communicator that a process holds, and its forked children do not.

use std::mem::ManuallyDrop;
use std::ops::Deref;

use toporing::communicator::Comm;

/// A communicator that is left when nobody holds it any more, unless this is a forked child: there
/// its threads and connections are the parent's.
pub struct HeldComm(ManuallyDrop<Comm>);

impl HeldComm {
    /// Holds a communicator.
    pub const fn new(comm: Comm) -> Self {
        Self(ManuallyDrop::new(comm))
    }
}

impl Deref for HeldComm {
    type Target = Comm;

    fn deref(&self) -> &Comm {
        &self.0
    }
}

impl Drop for HeldComm {
    fn drop(&mut self) {
        if self.0.check_process().is_ok() {
            // SAFETY: it is dropped once, here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        }
    }
}
