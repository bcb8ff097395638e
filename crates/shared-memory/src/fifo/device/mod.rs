//! FIFOs as the kernels of GPUs know them, of which the host has one end because a network carries them: slots as bytes,
//! out of memory that kernels fill, and into memory that they read.
//!
//! The layout is the kernels' (`kernels/arguments.h`), and what a line looks like is NCCL's (protocols LL and LL128). The
//! sending kernel says how long each slot is, when all of it is stored: the low half of the step's number plus one, above
//! the length. So slots of every protocol are whole when they are looked at.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use program::Protocol;

use super::relay::{Inflow, Outflow, Oversized};
use super::{SLOTS, is_free};
use crate::error::Error;
use crate::mapping::Mapping;
use crate::sync::{Ordering, Word, Words};

/// Counts, lengths and slots begin at multiples of this, bytes.
const BOUNDARY: usize = 128;

/// Where a FIFO lies in a mapping that both the host and a device reach. All are bytes; offsets are from the mapping's
/// start, and multiples of 128. Its text goes to another process that carries it.
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
pub(super) const fn line(protocol: Protocol) -> (usize, usize) {
    match protocol {
        Protocol::Simple => (8, 8),
        Protocol::Ll => (16, 8),
        Protocol::Ll128 => (128, 120),
    }
}

impl DeviceFifo {
    pub(super) fn words(&self, mapping: &Arc<Mapping>, offset: usize, bytes: usize) -> Words {
        Words::new(mapping, offset..offset + bytes)
    }

    pub(super) fn word(&self, mapping: &Arc<Mapping>, offset: usize) -> Word {
        self.words(mapping, offset, 8).word(0)
    }

    fn wrong(&self) -> Error {
        Error::Device {
            text: self.to_string(),
        }
    }

    /// Whether counts and lengths are within a mapping.
    pub(super) fn check_counts(&self, mapping: &Mapping) -> Result<(), Error> {
        let within = |offset: usize, bytes: usize| {
            let end = offset.checked_add(bytes);
            offset.is_multiple_of(BOUNDARY) && end.is_some_and(|end| end <= mapping.bytes())
        };
        let lengths = within(self.lengths, SLOTS as usize * 8);
        let countable = self.first_step < u64::MAX / 2;
        match within(self.tail, 8) && within(self.head, 8) && lengths && countable {
            true => Ok(()),
            false => Err(self.wrong()),
        }
    }

    /// Whether slots have room from one to the next, for a line at least.
    pub(super) fn check_stride(&self, stride: usize) -> Result<(), Error> {
        let (wire, data) = line(self.protocol);
        let bytes = self.slot_bytes.div_ceil(data).max(1).checked_mul(wire);
        match bytes.is_some_and(|bytes| bytes <= stride) && stride.is_multiple_of(BOUNDARY) {
            true => Ok(()),
            false => Err(self.wrong()),
        }
    }

    /// Whether everything is within a mapping.
    pub(super) fn check(&self, mapping: &Mapping) -> Result<(), Error> {
        self.check_counts(mapping)?;
        self.check_stride(self.stride)?;
        let bytes = self.stride.checked_mul(SLOTS as usize);
        let end = bytes.and_then(|bytes| bytes.checked_add(self.slots));
        let within = end.is_some_and(|end| end <= mapping.bytes());
        match within && self.slots.is_multiple_of(BOUNDARY) {
            true => Ok(()),
            false => Err(self.wrong()),
        }
    }

    fn slots(&self, mapping: &Arc<Mapping>) -> Words {
        self.words(mapping, self.slots, SLOTS as usize * self.stride)
    }

    /// The first word of a slot.
    const fn start(&self, step: u64) -> usize {
        (step % SLOTS) as usize * (self.stride / 8)
    }
}

impl fmt::Display for DeviceFifo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            Protocol::Simple => 's',
            Protocol::Ll => 'l',
            Protocol::Ll128 => 'm',
        };
        let Self {
            tail,
            head,
            lengths,
            slots,
            stride,
            slot_bytes,
            first_step,
            ..
        } = self;
        write!(
            f,
            "{protocol}:{tail}:{head}:{lengths}:{slots}:{stride}:{slot_bytes}:{first_step}"
        )
    }
}

impl FromStr for DeviceFifo {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Device {
            text: text.to_owned(),
        };
        let (protocol, rest) = text.split_once(':').ok_or_else(wrong)?;
        let numbers: Result<Vec<u64>, _> = rest.split(':').map(str::parse).collect();
        let numbers = numbers.map_err(|_| wrong())?;
        let [tail, head, lengths, slots, stride, slot_bytes, first_step] =
            <[u64; 7]>::try_from(numbers).map_err(|_| wrong())?;
        Ok(Self {
            protocol: match protocol {
                "s" => Protocol::Simple,
                "l" => Protocol::Ll,
                "m" => Protocol::Ll128,
                _ => return Err(wrong()),
            },
            tail: tail as usize,
            head: head as usize,
            lengths: lengths as usize,
            slots: slots as usize,
            stride: stride as usize,
            slot_bytes: slot_bytes as usize,
            first_step,
        })
    }
}

/// What the sending kernel says of the length of each slot.
#[derive(Debug)]
pub(super) struct Lengths {
    words: Words,
    most_bytes: usize,
}

impl Lengths {
    /// Of a FIFO within the mapping whose kernel has not begun.
    pub fn new(mapping: &Arc<Mapping>, fifo: &DeviceFifo) -> Self {
        let words = fifo.words(mapping, fifo.lengths, SLOTS as usize * 8);
        for step in (0..SLOTS).map(|ahead| fifo.first_step.wrapping_add(ahead)) {
            // As one round before; a 0 is the tag of a step, too.
            let before = tag(step.wrapping_sub(SLOTS));
            words.slice((step % SLOTS) as usize, 1)[0].store(before, Ordering::Release);
        }
        Self {
            words,
            most_bytes: fifo.slot_bytes,
        }
    }

    /// The length of a slot, once it is there.
    pub fn of(&self, step: u64) -> Result<Option<usize>, Oversized> {
        let word = &self.words.slice((step % SLOTS) as usize, 1)[0];
        let value = word.load(Ordering::Acquire);
        if value & TAG != tag(step) {
            return Ok(None);
        }
        let (bytes, most) = ((value & !TAG) as usize, self.most_bytes);
        match bytes <= most {
            true => Ok(Some(bytes)),
            false => Err(Oversized { bytes, most }),
        }
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
    lengths: Lengths,
    slots: Words,
    step: u64,
    /// The data of the next slot, if it was taken out of its lines already.
    taken: Option<usize>,
    staging: Box<[u8]>,
}

impl DeviceOutflow {
    /// The end of a FIFO whose kernel has not begun, and will at its first step.
    ///
    /// # Errors
    /// The FIFO is not within the mapping, or slots are longer than the space between them.
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

    fn next(&mut self) -> Result<Option<&[u8]>, Oversized> {
        let known = match self.taken {
            Some(bytes) => Some(bytes),
            None => self.lengths.of(self.step)?,
        };
        let Some(bytes) = known else {
            return Ok(None);
        };
        if self.fifo.protocol == Protocol::Simple {
            let start = self.slots.address(self.fifo.start(self.step));
            // SAFETY: the slot is in the mapping, which this end keeps; the kernel stored all of it before it said how long it
            // is, and does not touch it until the head says that it was given back, which only this end does.
            return Ok(Some(unsafe { std::slice::from_raw_parts(start, bytes) }));
        }
        if self.taken.is_none() {
            self.take(bytes);
            self.taken = Some(bytes);
        }
        Ok(Some(&self.staging[..bytes]))
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
pub(super) const fn cleans(step: u64) -> bool {
    step & 0x7fff_fff8 == 0x7fff_fff8
}

impl DeviceInflow {
    /// The end of a FIFO whose kernel begins at its first step.
    ///
    /// # Errors
    /// The FIFO is not within the mapping, or slots are longer than the space between them.
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
        if self.fifo.protocol == Protocol::Ll && cleans(self.step) {
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
        assert!(bytes <= self.fifo.slot_bytes && is_free(self.step, self.head_seen));
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
    fn slots_of_kernels_are_carried_as_bytes() {
        for protocol in [Protocol::Simple, Protocol::Ll, Protocol::Ll128] {
            for first_step in [0, (1 << 31) - 12, (1 << 32) - 4] {
                there_and_back(protocol, first_step);
            }
        }
    }

    #[test]
    fn fifos_survive_as_text() {
        let (_, whole) = fifo(Protocol::Ll128, 1 << 40);
        assert_eq!(whole.to_string().parse::<DeviceFifo>().unwrap(), whole);
        for wrong in [
            "",
            "s:1",
            "x:0:128:256:384:1024:100:0",
            "s:0:128:256:384:1024:100:-1",
        ] {
            assert!(wrong.parse::<DeviceFifo>().is_err(), "{wrong}");
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
