//! FIFOs between a kernel of a GPU and a proxy: the host has one end.
//!
//! The layout is that of `kernels/arguments.h`, the lines are NCCL's (protocols LL and LL128). When
//! a kernel has stored all of a slot, it stores the slot's length with the low half of the step's
//! number plus one, so the host sees whole slots under every protocol.

mod layout;

use std::sync::Arc;

use program::Protocol;

use super::flow::{Inflow, Outflow, Oversized};
use super::lines::Line;
use super::{LowLatency, LowLatencyLine, is_free};
use crate::error::Error;
use crate::mapping::Mapping;
use crate::sync::{Ordering, Word, Words};

pub use layout::DeviceFifo;
pub(super) use layout::{Lengths, line};

/// The LL128 protocol with NCCL's lines: 128 bytes, of which 120 are data.
type DeviceLine = LowLatencyLine<16>;

/// The receiving end of a FIFO that kernels fill.
#[derive(Debug)]
pub struct DeviceOutflow {
    fifo: DeviceFifo,
    head: Word,
    lengths: Lengths,
    slots: Words,
    step: u64,
    /// Bytes of the next slot, if its data was copied out of its lines.
    taken: Option<usize>,
    staging: Box<[u8]>,
}

impl DeviceOutflow {
    /// The end of a FIFO whose kernel has not begun.
    ///
    /// # Errors
    /// The FIFO is not within the mapping, or slots are longer than their distance.
    pub fn new(mapping: &Arc<Mapping>, fifo: DeviceFifo) -> Result<Self, Error> {
        fifo.check(mapping)?;
        Ok(Self {
            fifo,
            head: fifo.word(mapping, fifo.head),
            lengths: Lengths::new(mapping, &fifo),
            slots: fifo.slots(mapping),
            step: fifo.first_step,
            taken: None,
            staging: vec![0; fifo.slot_bytes].into_boxed_slice(),
        })
    }

    /// Copies data out of the lines of the next slot. Returns `false` if a flag is missing.
    fn take<L: Line>(&mut self, bytes: usize) -> bool {
        let words = bytes.div_ceil(L::DATA_BYTES) * L::WORDS;
        let words = self.slots.slice(self.fifo.start(self.step), words);
        let to = self.staging[..bytes].chunks_mut(L::DATA_BYTES);
        words.chunks_exact(L::WORDS).zip(to).all(|(line, to)| {
            let loaded = L::arrived(line, L::flag(self.step));
            // SAFETY: the line has arrived, and the slot is not released.
            loaded
                .map(|it| unsafe { L::load(line, it, to.as_mut_ptr(), to.len()) })
                .is_some()
        })
    }
}

impl Outflow for DeviceOutflow {
    fn most_bytes(&self) -> usize {
        self.fifo.slot_bytes
    }

    fn next(&mut self) -> Result<Option<&[u8]>, Oversized> {
        let known = match self.taken {
            Some(bytes) => Some(bytes),
            None => self.lengths.of(self.step)?,
        };
        let Some(bytes) = known else {
            return Ok(None);
        };
        let taken = self.taken.is_some()
            || match self.fifo.protocol {
                Protocol::Simple => {
                    let start = self.slots.address(self.fifo.start(self.step));
                    // SAFETY: the slot is in the mapping, which this end keeps. The kernel stored
                    // all of it before its length, and does not touch it until this end, which
                    // alone can, releases it.
                    return Ok(Some(unsafe { std::slice::from_raw_parts(start, bytes) }));
                }
                Protocol::Ll => self.take::<LowLatency>(bytes),
                Protocol::Ll128 => self.take::<DeviceLine>(bytes),
            };
        self.taken = taken.then_some(bytes);
        Ok(taken.then(|| &self.staging[..bytes]))
    }

    fn release(&mut self) {
        self.taken = None;
        self.step += 1;
        self.head.store(self.step, Ordering::Release);
    }
}

/// The sending end of a FIFO that kernels read.
#[derive(Debug)]
pub struct DeviceInflow {
    fifo: DeviceFifo,
    head: Word,
    head_seen: u64,
    tail: Word,
    slots: Words,
    step: u64,
    staging: Box<[u8]>,
}

impl DeviceInflow {
    /// The end of a FIFO whose kernel has not begun.
    ///
    /// # Errors
    /// The FIFO is not within the mapping, or slots are longer than their distance.
    pub fn new(mapping: &Arc<Mapping>, fifo: DeviceFifo) -> Result<Self, Error> {
        fifo.check(mapping)?;
        Ok(Self {
            fifo,
            head: fifo.word(mapping, fifo.head),
            head_seen: fifo.first_step,
            tail: fifo.word(mapping, fifo.tail),
            slots: fifo.slots(mapping),
            step: fifo.first_step,
            staging: vec![0; fifo.slot_bytes].into_boxed_slice(),
        })
    }

    fn is_free(&mut self) -> bool {
        if !is_free(self.step, self.head_seen) {
            self.head_seen = self.head.load(Ordering::Acquire);
        }
        is_free(self.step, self.head_seen)
    }

    /// Stores the staged data with flags: in whole lines, and in all of the slot if the step
    /// cleans.
    fn put<L: Line>(&mut self, bytes: usize) {
        let (wire, data) = line(self.fifo.protocol);
        let end = match L::cleans(self.step) {
            true => self.fifo.stride / wire,
            false => bytes.div_ceil(data),
        };
        let words = self.slots.slice(self.fifo.start(self.step), end * wire / 8);
        let (flag, mut data) = (
            L::flag(self.step),
            self.staging[..bytes].chunks(L::DATA_BYTES),
        );
        for line in words.chunks_exact(L::WORDS) {
            match data.next() {
                // SAFETY: the slot is free, so its lines are this end's until it posts them.
                Some(data) => unsafe { L::store(line, flag, data.as_ptr(), data.len()) },
                None => L::store_flag(line, flag),
            }
        }
    }
}

impl Inflow for DeviceInflow {
    fn most_bytes(&self) -> usize {
        self.fifo.slot_bytes
    }

    fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
        assert!(bytes <= self.fifo.slot_bytes);
        if !self.is_free() {
            return None;
        }
        if self.fifo.protocol != Protocol::Simple {
            return Some(&mut self.staging[..bytes]);
        }
        let start = self.slots.address(self.fifo.start(self.step));
        // SAFETY: the slot is in the mapping, which this end keeps, and free, so the kernel does
        // not touch it until this end posts it. Memory of a mapping is zeroed, so it holds bytes.
        Some(unsafe { std::slice::from_raw_parts_mut(start, bytes) })
    }

    fn post(&mut self, bytes: usize) {
        assert!(bytes <= self.fifo.slot_bytes && is_free(self.step, self.head_seen));
        match self.fifo.protocol {
            Protocol::Simple => {}
            Protocol::Ll => self.put::<LowLatency>(bytes),
            Protocol::Ll128 => self.put::<DeviceLine>(bytes),
        }
        self.step += 1;
        self.tail.store(self.step, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fifo::{SLOTS, tag};

    const SLOT: usize = 1000;

    fn fifo(protocol: Protocol, first_step: u64) -> (Arc<Mapping>, DeviceFifo) {
        let (wire, data) = line(protocol);
        let stride = (SLOT.div_ceil(data) * wire).next_multiple_of(128);
        let fifo = DeviceFifo {
            protocol,
            tail: 0,
            head: 128,
            lengths: 256,
            slots: 384,
            stride,
            slot_bytes: SLOT,
            first_step,
        };
        let mapping = Mapping::private("test", 384 + 8 * stride).unwrap();
        let mapping = Arc::new(mapping);
        let head = fifo.words(&mapping, fifo.head, 8).word(0);
        head.store(first_step, Ordering::Relaxed);
        (mapping, fifo)
    }

    /// Data that goes into a FIFO comes out of it, if the lengths are stored as a kernel does.
    fn there_and_back(protocol: Protocol, first_step: u64) {
        let (mapping, fifo) = fifo(protocol, first_step);
        let mut into = DeviceInflow::new(&mapping, fifo).unwrap();
        let mut out = DeviceOutflow::new(&mapping, fifo).unwrap();
        let lengths = fifo.words(&mapping, fifo.lengths, 64);
        let sizes = [1, 7, 8, 9, 119, 120, 121, 999, SLOT, 16, SLOT, 3];
        for (step, bytes) in (first_step..).zip(sizes) {
            let message: Vec<u8> = (0..bytes).map(|at| (at * 7 + bytes) as u8).collect();
            into.room(bytes).unwrap().copy_from_slice(&message);
            assert_eq!(out.next(), Ok(None));
            into.post(bytes);
            lengths.slice((step % SLOTS) as usize, 1)[0]
                .store(tag(step) | bytes as u64, Ordering::Release);
            assert_eq!(out.next().unwrap().unwrap(), message);
            assert_eq!(out.next().unwrap().unwrap(), message);
            out.release();
        }
        for _ in 0..SLOTS {
            assert!(into.room(1).is_some());
            into.post(1);
        }
        assert!(into.room(1).is_none());
    }

    #[test]
    fn slots_of_kernels_are_forwarded_as_bytes() {
        for protocol in [Protocol::Simple, Protocol::Ll, Protocol::Ll128] {
            for first_step in [0, (1 << 31) - 12, (1 << 32) - 4] {
                there_and_back(protocol, first_step);
            }
        }
    }

    #[test]
    fn lines_are_those_of_the_kernels() {
        let (mapping, fifo_ll) = fifo(Protocol::Ll, 5);
        let mut into = DeviceInflow::new(&mapping, fifo_ll).unwrap();
        into.room(9).unwrap().copy_from_slice(b"abcdefghi");
        into.post(9);
        let words = fifo_ll.slots(&mapping);
        let line: Vec<u64> = words
            .slice(fifo_ll.start(5), 4)
            .iter()
            .map(|word| word.load(Ordering::Relaxed))
            .collect();
        let flag = 6 << 32;
        let of = |text: &[u8; 4]| flag | u64::from(u32::from_le_bytes(*text));
        assert_eq!(line, [of(b"abcd"), of(b"efgh"), of(b"i\0\0\0"), flag]);
        let (mapping, fifo_128) = fifo(Protocol::Ll128, 5);
        let mut into = DeviceInflow::new(&mapping, fifo_128).unwrap();
        into.room(121).unwrap().fill(1);
        into.post(121);
        let words = fifo_128.slots(&mapping);
        let line = words.slice(fifo_128.start(5), 32);
        let value = |at: usize| line[at].load(Ordering::Relaxed);
        assert_eq!((value(14), value(15)), (0x0101_0101_0101_0101, 6));
        assert_eq!((value(16), value(31)), (1, 6));
    }
}
