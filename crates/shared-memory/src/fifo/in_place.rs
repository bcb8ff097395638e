//! FIFOs of kernels whose slots a NIC accesses itself (GPUDirect RDMA): it copies lines with their
//! flags, and slots may be in memory that this process cannot read.
//!
//! Counts and lengths are in host memory, as in [`super::device`]. Both ends of such a FIFO number
//! their slots alike, so the sender's flags are right at the receiver. An empty slot is sent as one
//! line, because a zero-length message ends the stream.

use std::any::Any;
use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use program::Protocol;

use super::device::{DeviceFifo, Lengths, line};
use super::flow::Oversized;
use super::lines::Line;
use super::{LowLatency, SLOTS, is_free};
use crate::Error;
use crate::mapping::Mapping;
use crate::sync::{Ordering, Word};

/// A file that describes memory of a device to NICs (DMA-BUF).
#[derive(Debug, Clone)]
pub struct DmaBuf {
    /// The file.
    pub file: Arc<OwnedFd>,
    /// Offset of the memory in it, bytes.
    pub offset: u64,
}

/// The owner of the memory.
#[derive(Debug, Clone)]
pub enum Owner {
    /// The host.
    Host,
    /// A device.
    Device {
        /// For NICs that support it.
        dma_buf: Option<DmaBuf>,
        /// Whether data that a NIC wrote must be flushed before the device may read it.
        flush: bool,
    },
}

/// The memory of a FIFO's eight slots.
#[derive(Clone)]
pub struct SlotMemory {
    /// Address of the first slot.
    pub address: u64,
    /// Distance between slots, bytes.
    pub stride: usize,
    /// Its owner.
    pub owner: Owner,
    /// Keeps the memory alive.
    pub kept: Arc<dyn Any + Send + Sync>,
}

impl SlotMemory {
    /// Bytes of all slots.
    pub const fn bytes(&self) -> usize {
        SLOTS as usize * self.stride
    }

    const fn offset(&self, step: u64) -> usize {
        (step % SLOTS) as usize * self.stride
    }
}

impl fmt::Debug for SlotMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address,
            stride,
            owner,
            ..
        } = self;
        write!(f, "SlotMemory({address:#x}, {stride}, {owner:?})")
    }
}

/// The receiving end of a FIFO that kernels fill and whose slots a NIC reads. Several may be in
/// progress; they are released in order.
#[derive(Debug)]
pub struct InPlaceOutflow {
    protocol: Protocol,
    head: Word,
    lengths: Lengths,
    memory: SlotMemory,
    /// Slots taken, and slots released.
    taken: u64,
    released: u64,
}

impl InPlaceOutflow {
    /// The end of a FIFO whose kernel has not begun. `fifo.slots` is ignored; the slots are in
    /// `memory`.
    ///
    /// # Errors
    /// Counts and lengths are not within the mapping, or slots are longer than their distance.
    pub fn new(
        mapping: &Arc<Mapping>,
        fifo: DeviceFifo,
        memory: SlotMemory,
    ) -> Result<Self, Error> {
        fifo.check_counts(mapping)?;
        fifo.check_stride(memory.stride)?;
        Ok(Self {
            protocol: fifo.protocol,
            head: fifo.word(mapping, fifo.head),
            lengths: Lengths::new(mapping, &fifo),
            memory,
            taken: fifo.first_step,
            released: fifo.first_step,
        })
    }

    /// As [`Self::new`], for slots that are in the mapping, too.
    ///
    /// # Errors
    /// The FIFO is not within the mapping, or slots are longer than their distance.
    pub fn within(mapping: &Arc<Mapping>, fifo: DeviceFifo) -> Result<Self, Error> {
        fifo.check(mapping)?;
        let base = mapping.base().as_ptr().expose_provenance() as u64;
        let memory = SlotMemory {
            address: base + fifo.slots as u64,
            stride: fifo.stride,
            owner: Owner::Host,
            kept: Arc::clone(mapping) as _,
        };
        Self::new(mapping, fifo, memory)
    }

    /// The memory of the slots.
    pub const fn memory(&self) -> &SlotMemory {
        &self.memory
    }

    /// Offset and bytes to send of the next slot that was not taken.
    ///
    /// # Errors
    /// The length that the kernel stored is impossible.
    pub fn next(&self) -> Result<Option<(usize, usize)>, Oversized> {
        if !is_free(self.taken, self.released) {
            return Ok(None);
        }
        let Some(bytes) = self.lengths.of(self.taken)? else {
            return Ok(None);
        };
        let (wire, data) = line(self.protocol);
        let whole = self.protocol == Protocol::Ll && LowLatency::cleans(self.taken);
        let sent = if whole {
            self.memory.stride
        } else {
            bytes.div_ceil(data).max(1) * wire
        };
        Ok(Some((self.memory.offset(self.taken), sent)))
    }

    /// Takes that slot, to be sent.
    pub fn take(&mut self) {
        self.taken += 1;
    }

    /// Releases the oldest taken slot, once it is sent.
    pub fn release(&mut self) {
        self.released += 1;
        self.head.store(self.released, Ordering::Release);
    }
}

/// The sending end of a FIFO that kernels read and whose slots a NIC writes. Several receives may
/// be in progress; slots are posted in order.
#[derive(Debug)]
pub struct InPlaceInflow {
    protocol: Protocol,
    head: Word,
    head_seen: u64,
    tail: Word,
    memory: SlotMemory,
    /// Slots taken, and slots posted.
    taken: u64,
    posted: u64,
}

impl InPlaceInflow {
    /// As [`InPlaceOutflow::new`].
    ///
    /// # Errors
    /// As there.
    pub fn new(
        mapping: &Arc<Mapping>,
        fifo: DeviceFifo,
        memory: SlotMemory,
    ) -> Result<Self, Error> {
        fifo.check_counts(mapping)?;
        fifo.check_stride(memory.stride)?;
        Ok(Self {
            protocol: fifo.protocol,
            head: fifo.word(mapping, fifo.head),
            head_seen: fifo.first_step,
            tail: fifo.word(mapping, fifo.tail),
            memory,
            taken: fifo.first_step,
            posted: fifo.first_step,
        })
    }

    /// The memory of the slots.
    pub const fn memory(&self) -> &SlotMemory {
        &self.memory
    }

    /// Whether data that a NIC wrote must be flushed before it is posted. Lines with flags need no
    /// flush: a flag shows that its line has arrived.
    pub const fn must_flush(&self, forced: bool) -> bool {
        match self.memory.owner {
            Owner::Device { flush, .. } => {
                matches!(self.protocol, Protocol::Simple) && (flush || forced)
            }
            Owner::Host => false,
        }
    }

    /// Offset of the next free slot that was not taken, bytes.
    pub fn room(&mut self) -> Option<usize> {
        if !is_free(self.taken, self.head_seen) {
            self.head_seen = self.head.load(Ordering::Acquire);
        }
        is_free(self.taken, self.head_seen).then(|| self.memory.offset(self.taken))
    }

    /// Takes that slot, to be received into.
    pub fn take(&mut self) {
        self.taken += 1;
    }

    /// Posts the oldest taken slot.
    pub fn post(&mut self) {
        self.posted += 1;
        self.tail.store(self.posted, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STRIDE: usize = 1024;

    fn memory(mapping: &Arc<Mapping>) -> SlotMemory {
        SlotMemory {
            address: 0x1000,
            stride: STRIDE,
            owner: Owner::Device {
                dma_buf: None,
                flush: true,
            },
            kept: Arc::clone(mapping) as _,
        }
    }

    fn fifo(protocol: Protocol, first_step: u64) -> (Arc<Mapping>, DeviceFifo) {
        let fifo = DeviceFifo {
            protocol,
            tail: 0,
            head: 128,
            lengths: 256,
            slots: 384,
            stride: STRIDE,
            slot_bytes: 480,
            first_step,
        };
        let mapping = Arc::new(Mapping::private("test", 384).unwrap());
        (mapping, fifo)
    }

    #[test]
    fn slots_are_taken_ahead_and_given_back_in_order() {
        let (mapping, fifo) = fifo(Protocol::Ll128, 3);
        let mut out = InPlaceOutflow::new(&mapping, fifo, memory(&mapping)).unwrap();
        assert_eq!(out.next(), Ok(None));
        let lengths = fifo.words(&mapping, fifo.lengths, 64);
        let say = |step: u64, bytes: u64| {
            let word = &lengths.slice((step % SLOTS) as usize, 1)[0];
            word.store((step + 1) << 32 | bytes, Ordering::Release);
        };
        for step in 3..3 + SLOTS {
            say(step, 121);
            assert_eq!(
                out.next(),
                Ok(Some(((step % SLOTS) as usize * STRIDE, 256)))
            );
            out.take();
        }
        // All are in progress.
        assert_eq!(out.next(), Ok(None));
        out.release();
        say(11, 0);
        assert_eq!(out.next(), Ok(Some((3 * STRIDE, 128))));
        assert_eq!(fifo.word(&mapping, fifo.head).load(Ordering::Relaxed), 4);
    }

    #[test]
    fn room_follows_what_kernels_give_back() {
        let (mapping, fifo) = fifo(Protocol::Simple, 0);
        let mut into = InPlaceInflow::new(&mapping, fifo, memory(&mapping)).unwrap();
        assert!(into.must_flush(false));
        for step in 0..SLOTS as usize {
            assert_eq!(into.room(), Some(step * STRIDE));
            into.take();
        }
        assert_eq!(into.room(), None);
        into.post();
        assert_eq!(fifo.word(&mapping, fifo.tail).load(Ordering::Relaxed), 1);
        fifo.word(&mapping, fifo.head).store(1, Ordering::Release);
        assert_eq!(into.room(), Some(0));
    }

    #[test]
    fn slots_are_sent_whole_where_they_are_cleaned() {
        let (mapping, fifo) = fifo(Protocol::Ll, 0x7fff_fff7);
        let mut out = InPlaceOutflow::new(&mapping, fifo, memory(&mapping)).unwrap();
        let lengths = fifo.words(&mapping, fifo.lengths, 64);
        for (step, sent) in [(0x7fff_fff7_u64, 32), (0x7fff_fff8, STRIDE)] {
            let word = &lengths.slice((step % SLOTS) as usize, 1)[0];
            word.store((step + 1) << 32 | 9, Ordering::Release);
            assert_eq!(out.next().unwrap().map(|it| it.1), Some(sent));
            out.take();
        }
    }

    #[test]
    fn fifos_that_do_not_fit_are_refused() {
        let (mapping, whole) = fifo(Protocol::Simple, 0);
        for wrong in [
            DeviceFifo { tail: 384, ..whole },
            DeviceFifo {
                lengths: usize::MAX - 127,
                ..whole
            },
            DeviceFifo { head: 4, ..whole },
            DeviceFifo {
                slot_bytes: STRIDE + 1,
                ..whole
            },
        ] {
            assert!(InPlaceOutflow::new(&mapping, wrong, memory(&mapping)).is_err());
            assert!(InPlaceInflow::new(&mapping, wrong, memory(&mapping)).is_err());
        }
        // An empty slot is sent as a line, which must fit.
        let none = DeviceFifo {
            stride: 0,
            slot_bytes: 0,
            slots: 256,
            ..whole
        };
        assert!(InPlaceOutflow::within(&mapping, none).is_err());
    }
}
