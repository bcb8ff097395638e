//! Scratch memory that all ranks reach at once.
//!
//! What a program needs of it is rounded up to a power of two, and there is one window for each: ranks that bind equal
//! programs get the same window, whatever order they come in. A rank runs one program at a time, and one that is ahead
//! waits in the program for the others, so a window is used by one launch at a time.

use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;

use crate::fleet::Fleet;
use crate::machine::{Everywhere, Machine};

/// Least bytes of a window.
const LEAST_BYTES: u64 = 64 << 10;

/// The windows of a fleet, by their bytes.
pub(crate) struct Windows<M: Machine> {
    known: Mutex<FxHashMap<u64, Window<M>>>,
}

/// One, and where each rank finds it.
struct Window<M: Machine> {
    ranks: Vec<Everywhere>,
    _memory: M::Multicast,
}

impl<M: Machine> Default for Windows<M> {
    fn default() -> Self {
        let known = Mutex::default();
        Self { known }
    }
}

impl<M: Machine> Fleet<M> {
    /// A window of at least so many bytes, as a rank finds it.
    ///
    /// # Errors
    /// The machine has no multicast for these devices, or not so much memory.
    pub(crate) fn window(&self, rank: u32, bytes: u64) -> Result<Everywhere, String> {
        let bytes = bytes.max(LEAST_BYTES);
        let bytes = bytes.checked_next_power_of_two().unwrap_or(bytes);
        let mut known = self
            .windows
            .known
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let window = match known.entry(bytes) {
            std::collections::hash_map::Entry::Occupied(found) => found.into_mut(),
            std::collections::hash_map::Entry::Vacant(free) => {
                let (memory, ranks) = self.machine.multicast(self.devices(), bytes)?;
                free.insert(Window {
                    ranks,
                    _memory: memory,
                })
            }
        };
        let own = window.ranks.get(rank as usize).copied();
        own.ok_or_else(|| format!("the multicast has no part for rank {rank}"))
    }
}
