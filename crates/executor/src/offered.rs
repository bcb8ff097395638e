//! The messages with which other processes open the memory of a rank. Each is read within its
//! bytes: what it claims about lengths allocates nothing.

use serde::{Deserialize, Serialize};
use shared_memory::{Error, Handle, Item, Segment};

use crate::slot_bytes::SlotBytes;

/// The first segment that every rank offers: its bell and its buffer table.
pub(crate) const BASE: [Item; 2] = [Item::Bell, Item::BufferTable { entries: 2 }];

/// The index of the bell in it.
pub(crate) const BASE_BELL: usize = 0;

/// The index of its buffer table.
pub(crate) const BASE_TABLE: usize = 1;

/// The index of the proxy's bell, behind a FIFO that another rank forwards.
pub(crate) const PROXY_BELL: usize = 1;

/// How another process opens a segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedSegment {
    /// Its memory.
    pub handle: Handle,
    /// Its items.
    pub items: Vec<Item>,
}

impl OfferedSegment {
    /// The offer of a segment; `None` if other processes cannot open it.
    pub(crate) fn of(segment: &Segment, items: &[Item]) -> Result<Option<Self>, Error> {
        let handle = segment.mapping().handle()?;
        Ok(handle.map(|handle| Self {
            handle,
            items: items.to_vec(),
        }))
    }

    pub(crate) fn open(&self) -> Result<Segment, Error> {
        Segment::open(&self.handle, &self.items)
    }
}

/// The memory that every rank offers when all meet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedMemory {
    /// Its bell and its buffer table; `None` if no other process opens them.
    pub base: Option<OfferedSegment>,
    /// The arena of its buffers, alike.
    pub arena: Option<Handle>,
    /// The lengths of its FIFO slots.
    pub slot_bytes: SlotBytes,
    /// The backend's offer to those of other ranks.
    pub backend: Vec<u64>,
}

/// The end of a connection that a rank offers to its peer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedConnection {
    /// The index of the connection in the segment.
    pub item: u32,
    /// The segment; `None` if no other process opens it.
    pub segment: Option<OfferedSegment>,
}
