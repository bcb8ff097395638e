//! The Simple protocol: slots are plain memory, with a counter of posted slots.

use program::Protocol;

use super::credit::{ReceiveCredit, SendCredit};
use super::{FifoProtocol, Layout, Receiver, SLOTS, Sender};
use crate::sync::{Ordering, Word, Words, load_bytes, store_bytes};

/// The Simple protocol.
#[derive(Debug, Clone, Copy)]
pub struct Simple;

impl FifoProtocol for Simple {
    const PROTOCOL: Protocol = Protocol::Simple;
    const GRAIN: usize = 8;
    type Sender = SimpleSender;
    type Receiver = SimpleReceiver;

    fn slot_words(bytes: usize) -> usize {
        bytes.div_ceil(8)
    }

    fn sender(words: &Words, slot_bytes: usize, first_step: u64) -> SimpleSender {
        let layout = Layout::new::<Self>(slot_bytes);
        let tail = words.word(Layout::TAIL);
        tail.store(first_step, Ordering::Relaxed);
        SimpleSender {
            credit: SendCredit::new(words, first_step),
            tail,
            data: layout.data(words),
            layout,
            slot_bytes,
        }
    }

    fn receiver(words: &Words, slot_bytes: usize, first_step: u64) -> SimpleReceiver {
        let layout = Layout::new::<Self>(slot_bytes);
        SimpleReceiver {
            credit: ReceiveCredit::new(words, first_step),
            tail: words.word(Layout::TAIL),
            tail_seen: first_step,
            data: layout.data(words),
            layout,
            slot_bytes,
        }
    }
}

/// The sending end of a [`Simple`] FIFO.
#[derive(Debug)]
pub struct SimpleSender {
    credit: SendCredit,
    tail: Word,
    data: Words,
    layout: Layout,
    slot_bytes: usize,
}

impl Sender for SimpleSender {
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
        self.data.address(self.layout.start(self.credit.step()))
    }

    #[inline]
    fn post_slot(&mut self, bytes: usize) {
        assert!(self.credit.is_known_free() && bytes <= self.slot_bytes);
        self.credit.advance(bytes);
        // Release: the data is written before the count.
        self.tail.store(self.credit.step(), Ordering::Release);
    }

    #[inline]
    unsafe fn write(&mut self, offset: usize, source: *const u8, bytes: usize) {
        assert!(self.credit.is_known_free());
        assert!(offset <= self.slot_bytes && bytes <= self.slot_bytes - offset);
        assert!(offset.is_multiple_of(8));
        let first = self.layout.start(self.credit.step()) + offset / 8;
        let words = self.data.slice(first, bytes.div_ceil(8));
        // SAFETY: the slot is free, so it is ours until it is posted; the caller promises the
        // source.
        unsafe { store_bytes(words, source, bytes) };
    }

    #[inline]
    fn post(&mut self, bytes: usize) {
        self.post_slot(bytes);
    }
}

/// The receiving end of a [`Simple`] FIFO.
#[derive(Debug)]
pub struct SimpleReceiver {
    credit: ReceiveCredit,
    tail: Word,
    tail_seen: u64,
    data: Words,
    layout: Layout,
    slot_bytes: usize,
}

impl SimpleReceiver {
    #[inline(always)]
    fn is_known_posted(&self) -> bool {
        // At most `SLOTS` posted slots are not released. A count further ahead is not the sender's.
        let ahead = self.tail_seen.wrapping_sub(self.credit.step());
        ahead.wrapping_sub(1) < SLOTS
    }
}

impl Receiver for SimpleReceiver {
    #[inline]
    fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    #[inline]
    fn step(&self) -> u64 {
        self.credit.step()
    }

    /// As [`Self::is_complete`], because a slot arrives whole.
    fn announced(&self) -> Option<usize> {
        self.credit.announced()
    }

    #[inline]
    fn has_begun(&mut self) -> bool {
        self.is_complete(0)
    }

    #[inline]
    fn is_complete(&mut self, bytes: usize) -> bool {
        debug_assert!(bytes <= self.slot_bytes);
        if self.is_known_posted() {
            return true;
        }
        // Acquire: the data is read after the count.
        self.tail_seen = self.tail.load(Ordering::Acquire);
        self.is_known_posted()
    }

    #[inline]
    unsafe fn read(&mut self, offset: usize, destination: *mut u8, bytes: usize) -> bool {
        assert!(self.is_known_posted());
        assert!(offset <= self.slot_bytes && bytes <= self.slot_bytes - offset);
        assert!(offset.is_multiple_of(8));
        let first = self.layout.start(self.credit.step()) + offset / 8;
        let words = self.data.slice(first, bytes.div_ceil(8));
        // SAFETY: the slot was posted and not released, so nobody writes it; the caller promises
        // the destination.
        unsafe { load_bytes(words, destination, bytes) };
        true
    }

    #[inline]
    fn slot(&mut self, bytes: usize) -> Option<*const u8> {
        assert!(self.is_known_posted() && bytes <= self.slot_bytes);
        let start = self.layout.start(self.credit.step());
        Some(self.data.address(start).cast_const())
    }

    #[inline]
    fn release(&mut self) {
        assert!(self.is_known_posted());
        self.credit.release();
    }
}
