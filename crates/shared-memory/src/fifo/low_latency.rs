//! The LL protocol: every 4 data bytes travel with a 4-byte flag in one atomic word, so a word that has come tells so
//! itself and no counter follows.
//!
//! The flag is the low half of the step number plus one. Before step numbers whose low 31 bits run out, the sender
//! writes the flags of a whole slot, also where there is no data: no line keeps a flag so old that it looks new when
//! the low half comes round.

use program::Protocol;

use super::credit::{ReceiveCredit, SendCredit};
use super::staging::Staging;
use super::{FifoProtocol, LOOKS, Layout, Receiver, Sender};
use crate::sync::{AtomicU64, Ordering, Words, pause};

/// The LL protocol.
#[derive(Debug, Clone, Copy)]
pub struct LowLatency;

/// Data bytes of a word.
const DATA_BYTES: usize = 4;

/// Words for so many data bytes. A slot without data still has a flag to wait for.
const fn words_of(bytes: usize) -> usize {
    let words = bytes.div_ceil(DATA_BYTES);
    if words == 0 { 1 } else { words }
}

/// The flag of a step, where it is in the word.
#[inline(always)]
const fn flag_of(step: u64) -> u64 {
    step.wrapping_add(1) << 32
}

/// The flag of a word, where it is.
const FLAG: u64 = 0xffff_ffff_0000_0000;

/// Whether all flags of this step's slot are written: for the last eight steps of every 2³¹.
#[inline(always)]
const fn cleans(step: u64) -> bool {
    step & 0x7fff_fff8 == 0x7fff_fff8
}

impl FifoProtocol for LowLatency {
    const PROTOCOL: Protocol = Protocol::Ll;
    const GRAIN: usize = DATA_BYTES;
    type Sender = LowLatencySender;
    type Receiver = LowLatencyReceiver;

    fn slot_words(bytes: usize) -> usize {
        words_of(bytes)
    }

    fn sender(words: &Words, slot_bytes: usize, first_step: u64) -> LowLatencySender {
        let layout = Layout::new::<Self>(slot_bytes);
        LowLatencySender {
            credit: SendCredit::new(words, first_step),
            data: layout.data(words),
            layout,
            slot_bytes,
            staging: Staging::default(),
        }
    }

    fn receiver(words: &Words, slot_bytes: usize, first_step: u64) -> LowLatencyReceiver {
        let layout = Layout::new::<Self>(slot_bytes);
        LowLatencyReceiver {
            credit: ReceiveCredit::new(words, first_step),
            data: layout.data(words),
            layout,
            slot_bytes,
            staging: Staging::default(),
        }
    }
}

/// The sending end of a [`LowLatency`] FIFO.
#[derive(Debug)]
pub struct LowLatencySender {
    credit: SendCredit,
    data: Words,
    layout: Layout,
    slot_bytes: usize,
    staging: Staging,
}

impl Sender for LowLatencySender {
    #[inline]
    fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    #[inline]
    fn step(&self) -> u64 {
        self.credit.step()
    }

    fn announce_lengths(&mut self) {
        self.credit.announce();
    }

    #[inline]
    fn is_free(&mut self) -> bool {
        self.credit.is_free()
    }

    #[inline]
    fn slot(&mut self, bytes: usize) -> *mut u8 {
        assert!(bytes <= self.slot_bytes);
        self.staging.address(bytes)
    }

    #[inline]
    fn post_slot(&mut self, bytes: usize) {
        assert!(bytes <= self.slot_bytes);
        let source = self.staging.address(bytes);
        // SAFETY: the staging memory has as many bytes.
        unsafe { self.write(0, source, bytes) };
        self.post(bytes);
    }

    #[inline]
    unsafe fn write(&mut self, offset: usize, source: *const u8, bytes: usize) {
        assert!(self.credit.is_known_free());
        assert!(offset.is_multiple_of(DATA_BYTES));
        assert!(offset <= self.slot_bytes && bytes <= self.slot_bytes - offset);
        let step = self.credit.step();
        let first = self.layout.start(step) + offset / DATA_BYTES;
        let words = self.data.slice(first, bytes.div_ceil(DATA_BYTES));
        let (full, rest) = words.split_at(bytes / DATA_BYTES);
        let flag = flag_of(step);
        for (index, word) in full.iter().enumerate() {
            // SAFETY: the word's data bytes are among the caller's `bytes`.
            let data = unsafe {
                source
                    .add(index * DATA_BYTES)
                    .cast::<u32>()
                    .read_unaligned()
            };
            // Relaxed: data and flag are one word, and nothing else is promised with them.
            word.store(flag | u64::from(data), Ordering::Relaxed);
        }
        if let [word] = rest {
            let mut data = [0; DATA_BYTES];
            // SAFETY: these are the last of the caller's `bytes`, fewer than a word's.
            unsafe {
                let from = source.add(full.len() * DATA_BYTES);
                std::ptr::copy_nonoverlapping(from, data.as_mut_ptr(), bytes % DATA_BYTES);
            }
            word.store(
                flag | u64::from(u32::from_ne_bytes(data)),
                Ordering::Relaxed,
            );
        }
    }

    #[inline]
    fn post(&mut self, bytes: usize) {
        assert!(self.credit.is_known_free() && bytes <= self.slot_bytes);
        let step = self.credit.step();
        if bytes == 0 || cleans(step) {
            self.flags_only(step, bytes);
        }
        self.credit.advance(bytes);
    }
}

impl LowLatencySender {
    /// Writes flags behind the data: one if there is no data, all before the flags come round.
    #[cold]
    fn flags_only(&self, step: u64, bytes: usize) {
        let first = bytes.div_ceil(DATA_BYTES);
        let end = if cleans(step) {
            words_of(self.slot_bytes)
        } else {
            words_of(bytes)
        };
        for word in self
            .data
            .slice(self.layout.start(step) + first, end - first)
        {
            word.store(flag_of(step), Ordering::Relaxed);
        }
    }
}

/// The receiving end of a [`LowLatency`] FIFO.
#[derive(Debug)]
pub struct LowLatencyReceiver {
    credit: ReceiveCredit,
    data: Words,
    layout: Layout,
    slot_bytes: usize,
    staging: Staging,
}

impl LowLatencyReceiver {
    #[inline(always)]
    fn has_come(&self, index: usize) -> bool {
        let step = self.credit.step();
        let word = &self.data.slice(self.layout.start(step) + index, 1)[0];
        word.load(Ordering::Relaxed) & FLAG == flag_of(step)
    }
}

impl Receiver for LowLatencyReceiver {
    #[inline]
    fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    #[inline]
    fn step(&self) -> u64 {
        self.credit.step()
    }

    fn announced(&self) -> Option<usize> {
        self.credit.announced()
    }

    #[inline]
    fn has_begun(&mut self) -> bool {
        self.has_come(0)
    }

    /// Looks at the last word. The others were written before, and reading looks at each of them again.
    #[inline]
    fn is_complete(&mut self, bytes: usize) -> bool {
        assert!(bytes <= self.slot_bytes);
        self.has_come(words_of(bytes) - 1)
    }

    #[inline]
    unsafe fn read(&mut self, offset: usize, destination: *mut u8, bytes: usize) -> bool {
        assert!(offset.is_multiple_of(DATA_BYTES));
        assert!(offset <= self.slot_bytes && bytes <= self.slot_bytes - offset);
        let step = self.credit.step();
        let first = self.layout.start(step) + offset / DATA_BYTES;
        let words = self.data.slice(first, bytes.div_ceil(DATA_BYTES));
        let (full, rest) = words.split_at(bytes / DATA_BYTES);
        let flag = flag_of(step);
        for (index, word) in full.iter().enumerate() {
            let mut value = word.load(Ordering::Relaxed);
            if value & FLAG != flag {
                match await_flag(word, flag) {
                    Some(come) => value = come,
                    None => return false,
                }
            }
            // SAFETY: the word's data bytes have their place among the caller's `bytes`.
            unsafe {
                let to = destination.add(index * DATA_BYTES).cast::<u32>();
                to.write_unaligned(value as u32);
            }
        }
        if let [word] = rest {
            let mut value = word.load(Ordering::Relaxed);
            if value & FLAG != flag {
                match await_flag(word, flag) {
                    Some(come) => value = come,
                    None => return false,
                }
            }
            let data = (value as u32).to_ne_bytes();
            // SAFETY: these are the last of the caller's `bytes`, fewer than a word's.
            unsafe {
                let to = destination.add(full.len() * DATA_BYTES);
                std::ptr::copy_nonoverlapping(data.as_ptr(), to, bytes % DATA_BYTES);
            }
        }
        true
    }

    #[inline]
    fn slot(&mut self, bytes: usize) -> Option<*const u8> {
        assert!(bytes <= self.slot_bytes);
        let staging = self.staging.address(bytes);
        // SAFETY: the staging memory has as many bytes.
        unsafe { self.read(0, staging, bytes) }.then_some(staging.cast_const())
    }

    #[inline]
    fn release(&mut self) {
        self.credit.release();
    }
}

/// The value of a word once it has this flag; `None` if it does not come.
#[cold]
fn await_flag(word: &AtomicU64, flag: u64) -> Option<u64> {
    (0..LOOKS).find_map(|_| {
        pause();
        let value = word.load(Ordering::Relaxed);
        (value & FLAG == flag).then_some(value)
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::mapping::Mapping;

    #[test]
    fn flags_of_2_to_the_32_steps_ago_are_gone() {
        const LONG: usize = 400;
        let words = LowLatency::fifo_words(LONG);
        let mapping = Arc::new(Mapping::private("test", words * 8).unwrap());
        let words = Words::new(&mapping, 0..words * 8);
        let exchange = |first_step: u64, bytes: usize| {
            let mut sender = LowLatency::sender(&words, LONG, first_step);
            let mut receiver = LowLatency::receiver(&words, LONG, first_step);
            for _ in 0..super::super::SLOTS {
                assert!(!receiver.is_complete(bytes));
                assert!(sender.try_send_from(&[7; LONG][..bytes]));
                assert!(receiver.try_receive_into(&mut [0; LONG][..bytes]));
            }
        };
        // Long messages leave flags in all words; short ones long after them write all flags anew.
        exchange(0, LONG);
        exchange((1 << 31) - 8, 4);
        // Flags are the same again as in the first steps: this looks for them before it sends.
        exchange(1 << 32, LONG);
    }
}
