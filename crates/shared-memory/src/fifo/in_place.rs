//! FIFOs of kernels whose slots a NIC reads and writes itself, as they are, lines and flags included (GPUDirect RDMA):
//! nothing is copied, and slots may lie in memory that this process cannot read.
//!
//! Counts and lengths lie in memory of the host, as in [`super::device`]. Both ends of such a FIFO number their slots alike,
//! so a line's flag is right where it comes to. Slots are carried whole or as far as they are filled; one without data is
//! carried as one line, for an empty message says something else.

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

/// A file by which a driver finds memory of a device (DMA-BUF).
#[derive(Debug, Clone)]
pub struct DmaBuf {
    /// The file.
    pub file: Arc<OwnedFd>,
    /// Where the memory begins in it, bytes.
    pub offset: u64,
}

/// Whose memory it is.
#[derive(Debug, Clone)]
pub enum Owner {
    /// The host's.
    Host,
    /// A device's.
    Device {
        /// By which NICs find it that take such files.
        dma_buf: Option<DmaBuf>,
        /// Whether what a NIC wrote must be flushed before the device may read it.
        flush: bool,
    },
}

/// Where the eight slots of a FIFO lie, one behind the other.
#[derive(Clone)]
pub struct SlotMemory {
    /// Address of the first one.
    pub address: u64,
    /// From one slot to the next, bytes.
    pub stride: usize,
    /// Whose memory it is.
    pub owner: Owner,
    /// What keeps it.
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

/// The receiving end of a FIFO that kernels fill, for a NIC that reads its slots. Several may be under way; they are given back
/// in the order in which they were taken.
#[derive(Debug)]
pub struct InPlaceOutflow {
    protocol: Protocol,
    head: Word,
    lengths: Lengths,
    memory: SlotMemory,
    /// Slots that were taken, and those that were given back.
    taken: u64,
    released: u64,
}

impl InPlaceOutflow {
    /// The end of a FIFO whose kernel has not begun. Where its slots lie according to it does not count.
    ///
    /// # Errors
    /// Counts and lengths are not within the mapping, or slots are longer than the space between them.
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

    /// As [`Self::new`], for slots that lie in the mapping, too.
    ///
    /// # Errors
    /// The FIFO is not within the mapping, or slots are longer than the space between them.
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

    /// Where the slots lie.
    pub const fn memory(&self) -> &SlotMemory {
        &self.memory
    }

    /// Where the next slot begins that was not taken, and how many bytes of it are to be carried; both in bytes.
    ///
    /// # Errors
    /// What the kernel says is no length of a slot.
    pub fn next(&self) -> Result<Option<(usize, usize)>, Oversized> {
        if !is_free(self.taken, self.released) {
            return Ok(None);
        }
        let Some(bytes) = self.lengths.of(self.taken)? else {
            return Ok(None);
        };
        let (wire, data) = line(self.protocol);
        let whole = self.protocol == Protocol::Ll && LowLatency::cleans(self.taken);
        let carried = if whole {
            self.memory.stride
        } else {
            bytes.div_ceil(data).max(1) * wire
        };
        Ok(Some((self.memory.offset(self.taken), carried)))
    }

    /// Takes that slot: it is being carried.
    pub fn take(&mut self) {
        self.taken += 1;
    }

    /// Gives the oldest slot back that was taken, once it is carried.
    pub fn release(&mut self) {
        self.released += 1;
        self.head.store(self.released, Ordering::Release);
    }
}

/// The sending end of a FIFO that kernels read, for a NIC that writes its slots. Receives for several may be under way; they are
/// posted in the order in which their room was taken.
#[derive(Debug)]
pub struct InPlaceInflow {
    protocol: Protocol,
    head: Word,
    head_seen: u64,
    tail: Word,
    memory: SlotMemory,
    /// Slots whose room was taken, and those that were posted.
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

    /// Where the slots lie.
    pub const fn memory(&self) -> &SlotMemory {
        &self.memory
    }

    /// Whether what a NIC wrote must be flushed before it is posted. Where lines have flags, those say that it is there.
    pub const fn must_flush(&self, forced: bool) -> bool {
        match self.memory.owner {
            Owner::Device { flush, .. } => {
                matches!(self.protocol, Protocol::Simple) && (flush || forced)
            }
            Owner::Host => false,
        }
    }

    /// Where the next slot begins that is free and whose room was not taken, bytes.
    pub fn room(&mut self) -> Option<usize> {
        if !is_free(self.taken, self.head_seen) {
            self.head_seen = self.head.load(Ordering::Acquire);
        }
        is_free(self.taken, self.head_seen).then(|| self.memory.offset(self.taken))
    }

    /// Takes that room.
    pub fn take(&mut self) {
        self.taken += 1;
    }

    /// Posts the oldest slot whose room was taken.
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
        // All are under way.
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
    fn lines_are_carried_whole_where_they_are_cleaned() {
        let (mapping, fifo) = fifo(Protocol::Ll, 0x7fff_fff7);
        let mut out = InPlaceOutflow::new(&mapping, fifo, memory(&mapping)).unwrap();
        let lengths = fifo.words(&mapping, fifo.lengths, 64);
        for (step, carried) in [(0x7fff_fff7_u64, 32), (0x7fff_fff8, STRIDE)] {
            let word = &lengths.slice((step % SLOTS) as usize, 1)[0];
            word.store((step + 1) << 32 | 9, Ordering::Release);
            assert_eq!(out.next().unwrap().map(|it| it.1), Some(carried));
            out.take();
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
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
        // A slot without data is carried as a line, for which there must be room.
        let none = DeviceFifo {
            stride: 0,
            slot_bytes: 0,
            slots: 256,
            ..whole
        };
        assert!(InPlaceOutflow::within(&mapping, none).is_err());
    }
}
