//! Segments that this process has mapped: ranks that are threads of it map each only once.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustc_hash::FxHashMap;
use shared_memory::{Error, Handle, Segment};

use crate::offered::OfferedSegment;

/// The segments of this process and of others that are in use.
static OPENED: Mutex<Option<Known>> = Mutex::new(None);

/// Entries beyond which those whose segments are gone are removed.
const LEAST_CLEANED: usize = 256;

#[derive(Debug, Default)]
struct Known {
    by_handle: FxHashMap<Handle, Weak<Segment>>,
    /// The number of entries at which gone ones are removed next.
    clean_at: usize,
}

impl Known {
    fn insert(&mut self, handle: Handle, segment: &Arc<Segment>) {
        if self.by_handle.len() >= self.clean_at {
            self.by_handle.retain(|_, it| it.strong_count() > 0);
            self.clean_at = LEAST_CLEANED.max(2 * self.by_handle.len());
        }
        self.by_handle.insert(handle, Arc::downgrade(segment));
    }
}

fn with<T>(use_it: impl FnOnce(&mut Known) -> T) -> T {
    // A thread that panics between two statements leaves a consistent map.
    let mut opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    use_it(opened.get_or_insert_default())
}

/// Keeps a segment of this process for its other ranks, if it is shared.
///
/// # Errors
/// The kernel gives no handle.
pub fn keep(segment: &Arc<Segment>) -> Result<(), Error> {
    if let Some(handle) = segment.mapping().handle()? {
        with(|known| known.insert(handle, segment));
    }
    Ok(())
}

/// Opens a segment, or returns the mapping that this process has of it.
///
/// # Errors
/// As [`Segment::open`]; or the segment has other items.
pub fn open(offered: &OfferedSegment) -> Result<Arc<Segment>, Error> {
    with(|known| {
        let segment = known.by_handle.get(&offered.handle);
        if let Some(segment) = segment.and_then(Weak::upgrade) {
            segment.expect_all(&offered.items)?;
            return Ok(segment);
        }
        let segment = Arc::new(offered.open()?);
        known.insert(offered.handle, &segment);
        Ok(segment)
    })
}
