//! Buffers in one mapping, so that a peer that maps it once reaches all of them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Error;
use crate::mapping::Mapping;
use crate::sync::LINE_BYTES;

/// Memory that is divided into buffers.
#[derive(Debug, Clone)]
pub struct Arena {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    mapping: Mapping,
    /// Free ranges: start to bytes. No two touch.
    free: Mutex<BTreeMap<usize, usize>>,
}

/// A buffer in an arena, which gets it back when it is dropped. New buffers are not zeroed.
#[derive(Debug)]
pub struct ArenaBuffer {
    shared: Arc<Shared>,
    offset: usize,
    bytes: usize,
    /// Start and bytes of the range that it took; `bytes`, rounded up.
    taken: (usize, usize),
}

impl Arena {
    /// An arena of all bytes of a mapping.
    pub fn new(mapping: Mapping) -> Self {
        let free = Mutex::new(BTreeMap::from([(0, mapping.bytes())]));
        Self {
            shared: Arc::new(Shared { mapping, free }),
        }
    }

    /// The memory.
    pub fn mapping(&self) -> &Mapping {
        &self.shared.mapping
    }

    /// The offset of a memory range in the arena, bytes; `None` if part of it is outside.
    pub fn offset_of(&self, address: *const u8, bytes: usize) -> Option<usize> {
        let mapping = &self.shared.mapping;
        let offset = address.addr().checked_sub(mapping.base().as_ptr().addr())?;
        let inside = offset <= mapping.bytes() && bytes <= mapping.bytes() - offset;
        inside.then_some(offset)
    }

    /// Allocates a buffer. Its alignment is a power of two, at most a page, and is raised to two
    /// cache lines, so that no two buffers share one.
    ///
    /// # Errors
    /// No free range is long enough.
    ///
    /// # Panics
    /// The alignment is not a power of two, or larger than a page of 4096 bytes.
    pub fn allocate(&self, bytes: usize, alignment: usize) -> Result<ArenaBuffer, Error> {
        assert!(alignment.is_power_of_two() && alignment <= 4096);
        let alignment = alignment.max(LINE_BYTES);
        let full = || Error::ArenaFull {
            name: self.shared.mapping.name().to_owned(),
            bytes,
            arena_bytes: self.shared.mapping.bytes(),
        };
        let wanted = bytes
            .max(1)
            .checked_next_multiple_of(LINE_BYTES)
            .ok_or_else(full)?;
        let mut free = self
            .shared
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let fits = free.iter().find_map(|(&start, &length)| {
            let offset = start.next_multiple_of(alignment);
            (offset - start <= length && wanted <= length - (offset - start))
                .then_some((start, length, offset))
        });
        let (start, length, offset) = fits.ok_or_else(full)?;
        free.remove(&start);
        if offset > start {
            free.insert(start, offset - start);
        }
        let (end, taken_end) = (start + length, offset + wanted);
        if taken_end < end {
            free.insert(taken_end, end - taken_end);
        }
        Ok(ArenaBuffer {
            shared: Arc::clone(&self.shared),
            offset,
            bytes,
            taken: (offset, wanted),
        })
    }
}

impl ArenaBuffer {
    /// Bytes from the arena's start, which peers need.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Length.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The first byte. Callers synchronize threads and processes that access it.
    pub fn address(&self) -> *mut u8 {
        self.shared
            .mapping
            .base()
            .as_ptr()
            .wrapping_add(self.offset)
    }

    /// Its bytes. Peers may access them only during a launch that uses the buffer.
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: the range belongs to this buffer, is mapped as long as the arena lives, and was
        // zeroed when it was mapped. Peers access it only during launches of its owner that use it.
        unsafe { std::slice::from_raw_parts(self.address(), self.bytes) }
    }

    /// Its bytes, for writing.
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and it is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.address(), self.bytes) }
    }

    /// The arena that it belongs to.
    pub fn arena(&self) -> Arena {
        Arena {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl Drop for ArenaBuffer {
    fn drop(&mut self) {
        let (mut start, mut bytes) = self.taken;
        let mut free = self
            .shared
            .free
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((&before, &length)) = free.range(..start).next_back()
            && before + length == start
        {
            free.remove(&before);
            (start, bytes) = (before, length + bytes);
        }
        if let Some(length) = free.remove(&(start + bytes)) {
            bytes += length;
        }
        free.insert(start, bytes);
    }
}
