//! FIFOs as the kernels of GPUs know them, of which the host has one end because a network carries them: slots as bytes,
//! out of memory that kernels fill, and into memory that they read.
//!
//! The layout is the kernels' (`kernels/arguments.h`), and what a line looks like is NCCL's (protocols LL and LL128). The
//! sending kernel says how long each slot is, when all of it is stored: the low half of the step's number plus one, above
//! the length. So slots of every protocol are whole when they are looked at.

use std::sync::Arc;

use super::relay::{Inflow, Outflow};
use super::{Protocol, SLOTS};
use crate::mapping::Mapping;
use crate::sync::{Ordering, Word, Words};

/// Where a FIFO lies in a mapping that both the host and a device reach. All are bytes; offsets are from the mapping's
/// start, and multiples of 128.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceFifo {
    /// What its slots look like.
    pub protocol: Protocol,
    /// Offset of the count of posted slots.
    pub tail: usize,
    /// Offset of the count of slots that were given back.
    pub head: usize,
    /// Offset of the lengths, eight words.
    pub lengths: usize,
    /// Offset of the first slot.
    pub slots: usize,
    /// From one slot to the next.
    pub stride: usize,
    /// Data of a slot at most.
    pub slot_bytes: usize,
    /// The step at which both ends begin.
    pub first_step: u64,
}

/// Bytes of a line, data bytes of it, by protocol.
const fn line(protocol: Protocol) -> (usize, usize) {
    match protocol {
        Protocol::Simple => (8, 8),
        Protocol::LowLatency => (16, 8),
        Protocol::LowLatency128 => (128, 120),
    }
}

impl DeviceFifo {
    fn words(&self, mapping: &Arc<Mapping>, offset: usize, bytes: usize) -> Words {
        Words::new(mapping, offset..offset + bytes)
    }

    fn slots(&self, mapping: &Arc<Mapping>) -> Words {
        let (wire, data) = line(self.protocol);
        assert!(self.slot_bytes.div_ceil(data) * wire <= self.stride);
        self.words(mapping, self.slots, SLOTS as usize * self.stride)
    }

    /// The first word of a slot.
    const fn start(&self, step: u64) -> usize {
        (step % SLOTS) as usize * (self.stride / 8)
    }
}

/// The low half of a step's number plus one, above nothing.
const fn tag(step: u64) -> u64 {
    step.wrapping_add(1) << 32
}

const TAG: u64 = 0xffff_ffff_0000_0000;

/// The receiving end of a FIFO that kernels fill.
#[derive(Debug)]
pub struct DeviceOutflow {
    fifo: DeviceFifo,
    head: Word,
    lengths: Words,
    slots: Words,
    step: u64,
    /// The data of the next slot, if it was taken out of its lines already.
    taken: Option<usize>,
    staging: Box<[u8]>,
}

impl DeviceOutflow {
    /// The end of a FIFO whose kernel has not begun, and will at its first step.
    ///
    /// # Panics
    /// The FIFO is not within the mapping, or slots are longer than the space between them.
    pub fn new(mapping: &Arc<Mapping>, fifo: DeviceFifo) -> Self {
        let lengths = fifo.words(mapping, fifo.lengths, SLOTS as usize * 8);
        for step in fifo.first_step..fifo.first_step + SLOTS {
            // As one round before; a 0 is the tag of a step, too.
            let before = tag(step.wrapping_sub(SLOTS));
            lengths.slice((step % SLOTS) as usize, 1)[0].store(before, Ordering::Release);
        }
        Self {
            fifo,
            head: fifo.words(mapping, fifo.head, 8).word(0),
            lengths,
            slots: fifo.slots(mapping),
            step: fifo.first_step,
            taken: None,
            staging: vec![0; fifo.slot_bytes].into_boxed_slice(),
        }
    }

    /// The length of the next slot, once it is there.
    fn length(&self) -> Option<usize> {
        let word = &self.lengths.slice((self.step % SLOTS) as usize, 1)[0];
        let value = word.load(Ordering::Acquire);
        let bytes = (value & !TAG) as usize;
        (value & TAG == tag(self.step) && bytes <= self.fifo.slot_bytes).then_some(bytes)
    }

    /// Takes data out of the lines of the next slot.
    fn take(&mut self, bytes: usize) {
        let (wire, data) = line(self.fifo.protocol);
        let lines = bytes.div_ceil(data);
        let words = self
            .slots
            .slice(self.fifo.start(self.step), lines * wire / 8);
        let to = &mut self.staging[..bytes];
        for (line, to) in words.chunks_exact(wire / 8).zip(to.chunks_mut(data)) {
            match line {
                // LL: data and flag, data and flag.
                [low, high] => {
                    let half = |word: &crate::sync::AtomicU64| word.load(Ordering::Relaxed) & !TAG;
                    let value = half(low) | half(high) << 32;
                    to.copy_from_slice(&value.to_le_bytes()[..to.len()]);
                }
                // LL128: data, and a flag in the last word.
                _ => {
                    for (word, to) in line.iter().zip(to.chunks_mut(8)) {
                        let value = word.load(Ordering::Relaxed);
                        to.copy_from_slice(&value.to_le_bytes()[..to.len()]);
                    }
                }
            }
        }
    }
}

impl Outflow for DeviceOutflow {
    fn most_bytes(&self) -> usize {
        self.fifo.slot_bytes
    }

    fn next(&mut self) -> Option<&[u8]> {
        let bytes = match self.taken {
            Some(bytes) => bytes,
            None => self.length()?,
        };
        if self.fifo.protocol == Protocol::Simple {
            let start = self.slots.address(self.fifo.start(self.step));
            // SAFETY: the slot is in the mapping, which this end keeps; the kernel stored all of it before it said how long it
            // is, and does not touch it until the head says that it was given back, which only this end does.
            return Some(unsafe { std::slice::from_raw_parts(start, bytes) });
        }
        if self.taken.is_none() {
            self.take(bytes);
            self.taken = Some(bytes);
        }
        Some(&self.staging[..bytes])
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

/// LL: in the last eight steps of every 2^31 all flags of a slot are written, so that none is old when the low halves of
/// steps come round. The kernels do the same.
const fn cleans(step: u64) -> bool {
    step & 0x7fff_fff8 == 0x7fff_fff8
}

impl DeviceInflow {
    /// The end of a FIFO whose kernel begins at its first step.
    ///
    /// # Panics
    /// The FIFO is not within the mapping, or slots are longer than the space between them.
    pub fn new(mapping: &Arc<Mapping>, fifo: DeviceFifo) -> Self {
        Self {
            fifo,
            head: fifo.words(mapping, fifo.head, 8).word(0),
            head_seen: fifo.first_step,
            tail: fifo.words(mapping, fifo.tail, 8).word(0),
            slots: fifo.slots(mapping),
            step: fifo.first_step,
            staging: vec![0; fifo.slot_bytes].into_boxed_slice(),
        }
    }

    fn is_free(&mut self) -> bool {
        if self.step >= self.head_seen + SLOTS {
            self.head_seen = self.head.load(Ordering::Acquire);
        }
        self.step < self.head_seen + SLOTS
    }

    /// Puts what is staged into lines.
    fn put(&mut self, bytes: usize) {
        let (wire, data) = line(self.fifo.protocol);
        let (lines, all) = (bytes.div_ceil(data), self.fifo.stride / wire);
        let words = self.slots.slice(self.fifo.start(self.step), all * wire / 8);
        let from = &self.staging[..bytes];
        let word_of = |bytes: &[u8]| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        let flag = tag(self.step);
        for (line, from) in words.chunks_exact(wire / 8).zip(from.chunks(data)) {
            match line {
                [low, high] => {
                    let value = word_of(from);
                    high.store(flag | value >> 32, Ordering::Relaxed);
                    low.store(flag | value & !TAG, Ordering::Relaxed);
                }
                [own @ .., last] => {
                    for (word, from) in own.iter().zip(from.chunks(8)) {
                        word.store(word_of(from), Ordering::Relaxed);
                    }
                    last.store(self.step + 1, Ordering::Release);
                }
                [] => {}
            }
        }
        if self.fifo.protocol == Protocol::LowLatency && cleans(self.step) {
            for word in &words[lines * wire / 8..] {
                word.store(flag, Ordering::Relaxed);
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
        // SAFETY: the slot is in the mapping, which this end keeps, and free, so the kernel does not touch it until this end
        // posts it; all memory of a mapping was zeroed when it was made, so it holds bytes.
        Some(unsafe { std::slice::from_raw_parts_mut(start, bytes) })
    }

    fn post(&mut self, bytes: usize) {
        assert!(bytes <= self.fifo.slot_bytes && self.step < self.head_seen + SLOTS);
        if self.fifo.protocol != Protocol::Simple {
            self.put(bytes);
        }
        self.step += 1;
        self.tail.store(self.step, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// What goes into a FIFO comes out of it, if somebody says the lengths, as the sending kernel does.
    fn there_and_back(protocol: Protocol, first_step: u64) {
        let (mapping, fifo) = fifo(protocol, first_step);
        let mut into = DeviceInflow::new(&mapping, fifo);
        let mut out = DeviceOutflow::new(&mapping, fifo);
        let lengths = fifo.words(&mapping, fifo.lengths, 64);
        let sizes = [1, 7, 8, 9, 119, 120, 121, 999, SLOT, 16, SLOT, 3];
        for (step, bytes) in (first_step..).zip(sizes) {
            let message: Vec<u8> = (0..bytes).map(|at| (at * 7 + bytes) as u8).collect();
            into.room(bytes).unwrap().copy_from_slice(&message);
            assert!(out.next().is_none());
            into.post(bytes);
            lengths.slice((step % SLOTS) as usize, 1)[0]
                .store(tag(step) | bytes as u64, Ordering::Release);
            assert_eq!(out.next().unwrap(), message);
            assert_eq!(out.next().unwrap(), message);
            out.release();
        }
        for _ in 0..SLOTS {
            assert!(into.room(1).is_some());
            into.post(1);
        }
        assert!(into.room(1).is_none());
    }

    #[test]
    fn slots_of_kernels_are_carried_as_bytes() {
        for protocol in [
            Protocol::Simple,
            Protocol::LowLatency,
            Protocol::LowLatency128,
        ] {
            for first_step in [0, (1 << 31) - 12, (1 << 32) - 4] {
                there_and_back(protocol, first_step);
            }
        }
    }

    #[test]
    fn lines_are_those_of_the_kernels() {
        let (mapping, fifo_ll) = fifo(Protocol::LowLatency, 5);
        let mut into = DeviceInflow::new(&mapping, fifo_ll);
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
        let (mapping, fifo_128) = fifo(Protocol::LowLatency128, 5);
        let mut into = DeviceInflow::new(&mapping, fifo_128);
        into.room(121).unwrap().fill(1);
        into.post(121);
        let words = fifo_128.slots(&mapping);
        let line = words.slice(fifo_128.start(5), 32);
        let value = |at: usize| line[at].load(Ordering::Relaxed);
        assert_eq!((value(14), value(15)), (0x0101_0101_0101_0101, 6));
        assert_eq!((value(16), value(31)), (1, 6));
    }
}
