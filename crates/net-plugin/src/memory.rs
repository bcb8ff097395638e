//! Memory that a NIC reads and writes: slots that belong to a connection, each on pages of its own,
//! or memory of the host or a GPU that the caller hands over.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::any::Any;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;

/// Alignment of slots, bytes.
const PAGE_BYTES: usize = 4096;

/// The owner of the memory.
#[derive(Debug, Clone)]
pub enum Owner {
    /// The host.
    Host,
    /// A GPU; with its DMA-BUF, if there is one, and the memory's offset in it in bytes.
    Device(Option<(Arc<OwnedFd>, u64)>),
}

/// The caller's memory that a NIC sends from or receives into. This crate does not access it.
#[derive(Clone)]
pub struct CallerMemory {
    /// Its address.
    pub address: u64,
    /// Its size, bytes.
    pub bytes: usize,
    /// Its owner.
    pub owner: Owner,
    /// Keeps the memory alive.
    pub kept: Arc<dyn Any + Send + Sync>,
}

impl CallerMemory {
    /// The address `offset` bytes from its start.
    pub(crate) fn at(&self, offset: usize) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut((self.address + offset as u64) as usize)
    }
}

pub struct Memory {
    start: NonNull<u8>,
    layout: Layout,
    stride: usize,
}

// SAFETY: the memory belongs to this value alone; its owner decides who accesses it.
unsafe impl Send for Memory {}

impl Memory {
    /// Zeroed slots.
    ///
    /// # Panics
    /// They do not fit into the address space.
    pub fn new(slots: usize, slot_bytes: usize) -> Self {
        let stride = slot_bytes.max(1).next_multiple_of(PAGE_BYTES);
        let bytes = stride
            .checked_mul(slots.max(1))
            .expect("slots fit into memory");
        let layout = Layout::from_size_align(bytes, PAGE_BYTES).expect("slots fit into memory");
        // SAFETY: the layout has at least a page.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        Self {
            start,
            layout,
            stride,
        }
    }

    pub fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub fn bytes(&self) -> usize {
        self.layout.size()
    }

    pub fn slot(&self, number: usize) -> *mut u8 {
        let slots = self.layout.size() / self.stride;
        // SAFETY: the offset is below the memory's size.
        unsafe { self.start.as_ptr().add(number % slots * self.stride) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}
