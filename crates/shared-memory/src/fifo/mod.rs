//! FIFOs of eight slots with one sender and one receiver, by three protocols behind one interface.
//!
//! | protocol | sign that data has arrived | data per 64 bytes | good for |
//! |---|---|---|---|
//! | [`Simple`] | a counter of posted slots, the *tail* | 64 | long messages; plain memory |
//! | [`LowLatency`] (LL) | 4 flag bytes beside every 4 data bytes | 32 | the shortest messages |
//! | [`LowLatency128`] (LL128) | one flag word in every line | 56 | short and medium messages |
//!
//! The receiver counts the slots that it released, the *head*, which the sender reads only when it
//! knows of no free slot. Slots have no lengths: both sides know them from their programs. If the
//! receiver is a proxy, which knows no program ([`relay`]), the sender announces lengths. A counter
//! belongs to one protocol, counts over the whole life of the FIFO and is never reset.
//!
//! A sender calls [`Sender::is_free`], then fills the slot: at once through [`Sender::slot`] and
//! [`Sender::post_slot`], or in parts through [`Sender::write`] and [`Sender::post`]. A receiver
//! calls [`Receiver::is_complete`], reads by [`Receiver::slot`] or [`Receiver::read`], and calls
//! [`Receiver::release`].

mod credit;
#[cfg(not(loom))]
pub mod device;
#[cfg(not(loom))]
mod flow;
#[cfg(not(loom))]
pub mod in_place;
mod lines;
mod low_latency;
mod low_latency_128;
#[cfg(not(loom))]
pub mod relay;
mod simple;
mod staging;

pub use lines::{Line, LineReceiver, LineSender};
pub use low_latency::LowLatency;
pub use low_latency_128::{LowLatency128, LowLatencyLine};
pub use simple::{Simple, SimpleReceiver, SimpleSender};

use program::Protocol;

use crate::sync::{LINE_WORDS, Words};

/// Slots of a FIFO.
pub const SLOTS: u64 = 8;

/// The half of a word that holds a step's [`tag`].
const TAG: u64 = 0xffff_ffff_0000_0000;

/// The low half of a step's number plus one, in the upper half of a word.
#[inline(always)]
const fn tag(step: u64) -> u64 {
    step.wrapping_add(1) << 32
}

/// A protocol as a type: the layout of a slot.
pub trait FifoProtocol: Sized {
    /// The protocol as a value.
    const PROTOCOL: Protocol;
    /// Parts of a slot are written and read at multiples of this offset, bytes.
    const GRAIN: usize;
    /// The sending end.
    type Sender: Sender;
    /// The receiving end.
    type Receiver: Receiver;

    /// Words that a slot of `bytes` data bytes takes.
    fn slot_words(bytes: usize) -> usize;

    /// The sending end of the FIFO in zeroed words, from a step on that the receiver uses too.
    ///
    /// [`crate::Segment`] gives out each end once.
    #[doc(hidden)]
    fn sender(words: &Words, slot_bytes: usize, first_step: u64) -> Self::Sender;

    /// The receiving end.
    #[doc(hidden)]
    fn receiver(words: &Words, slot_bytes: usize, first_step: u64) -> Self::Receiver;

    /// Words that a FIFO takes.
    fn fifo_words(slot_bytes: usize) -> usize {
        Layout::new::<Self>(slot_bytes).words()
    }
}

/// The sending end of a FIFO.
///
/// # Memory order
/// A receiver that found a slot complete sees the data that was written to it before. Under
/// [`Simple`] and [`LowLatency128`] it also sees everything else that was written before.
pub trait Sender: Send {
    /// Data bytes of a slot.
    fn slot_bytes(&self) -> usize;

    /// Steps posted so far.
    fn step(&self) -> u64;

    /// From now on stores each slot's length, for receivers that do not know it.
    fn announce_lengths(&mut self);

    /// Whether a slot is free. Touches no shared memory while it knows of one.
    fn is_free(&mut self) -> bool;

    /// Memory for a message of at most `bytes` bytes, which [`Self::post_slot`] sends; aligned to
    /// 64 bytes.
    ///
    /// It may be written while a slot is free ([`Self::is_free`]) and not posted.
    ///
    /// # Panics
    /// A slot has fewer bytes.
    fn slot(&mut self, bytes: usize) -> *mut u8;

    /// Posts the free slot with the first `bytes` bytes of [`Self::slot`].
    ///
    /// # Panics
    /// No slot is known to be free, or a slot has fewer bytes.
    fn post_slot(&mut self, bytes: usize);

    /// Writes bytes to the free slot from `offset` on, which is a multiple of the protocol's grain.
    ///
    /// # Panics
    /// No slot is known to be free, or they do not fit.
    ///
    /// # Safety
    /// `bytes` bytes can be read at `source`.
    unsafe fn write(&mut self, offset: usize, source: *const u8, bytes: usize);

    /// Posts the free slot whose first `bytes` bytes were written by [`Self::write`].
    ///
    /// # Panics
    /// As [`Self::write`].
    fn post(&mut self, bytes: usize);

    /// Sends a slot with these bytes.
    ///
    /// # Panics
    /// As [`Self::write`].
    ///
    /// # Safety
    /// As [`Self::write`].
    #[inline]
    unsafe fn send(&mut self, source: *const u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.write(0, source, bytes) };
        self.post(bytes);
    }

    /// Sends a slot with these bytes if one is free. Returns whether it was.
    ///
    /// # Panics
    /// A slot has fewer bytes.
    #[inline]
    fn try_send_from(&mut self, bytes: &[u8]) -> bool {
        let free = self.is_free();
        if free {
            // SAFETY: the bytes are borrowed.
            unsafe { self.send(bytes.as_ptr(), bytes.len()) };
        }
        free
    }
}

/// Checks for a line that is missing although a later one of the slot has arrived. On processors
/// that keep stores in order there is none; on others it arrives at once. Under the model checker
/// the caller checks again.
const LOOKS: u32 = if cfg!(loom) { 0 } else { 64 };

/// Whether the slot of a step is free when the receiver has released `head` slots. Another process
/// writes that count: if it is ahead of the steps, or too far behind, nothing is free.
#[inline(always)]
const fn is_free(step: u64, head: u64) -> bool {
    step.wrapping_sub(head) < SLOTS
}

/// The receiving end of a FIFO.
pub trait Receiver: Send {
    /// Data bytes of a slot.
    fn slot_bytes(&self) -> usize;

    /// Steps released so far.
    fn step(&self) -> u64;

    /// The length of the next slot in bytes, if it was posted by a sender that announces lengths.
    fn announced(&self) -> Option<usize>;

    /// Whether the next slot began to arrive, so that its sender is writing it right now.
    fn has_begun(&mut self) -> bool;

    /// Whether the next slot, of `bytes` bytes, has arrived. Touches at most one line of shared
    /// memory.
    fn is_complete(&mut self, bytes: usize) -> bool;

    /// Reads bytes of the next slot from `offset` on, which is a multiple of the protocol's grain.
    /// Returns `false` if a line is missing; some bytes may have been written then.
    ///
    /// # Panics
    /// The range is not in a slot, or the protocol has no lines and [`Self::is_complete`] did not
    /// return `true`.
    ///
    /// # Safety
    /// `bytes` bytes can be written at `destination`.
    unsafe fn read(&mut self, offset: usize, destination: *mut u8, bytes: usize) -> bool;

    /// The `bytes` bytes of the next slot, for which [`Self::is_complete`] returned `true`,
    /// contiguous and aligned to 64 bytes. `None` if a line is missing.
    ///
    /// They may be read until the next call of [`Self::release`] or [`Self::slot`].
    ///
    /// # Panics
    /// As [`Self::read`].
    fn slot(&mut self, bytes: usize) -> Option<*const u8>;

    /// Releases the slot.
    fn release(&mut self);

    /// Receives a slot of `bytes` bytes if it has arrived. Returns whether it had.
    ///
    /// # Panics
    /// A slot has fewer bytes.
    ///
    /// # Safety
    /// As [`Self::read`].
    #[inline]
    unsafe fn try_receive(&mut self, destination: *mut u8, bytes: usize) -> bool {
        // SAFETY: the caller's promise.
        let taken = self.is_complete(bytes) && unsafe { self.read(0, destination, bytes) };
        if taken {
            self.release();
        }
        taken
    }

    /// Receives a slot of this length if it has arrived. Returns whether it had.
    ///
    /// # Panics
    /// A slot has fewer bytes.
    #[inline]
    fn try_receive_into(&mut self, bytes: &mut [u8]) -> bool {
        // SAFETY: the bytes are borrowed.
        unsafe { self.try_receive(bytes.as_mut_ptr(), bytes.len()) }
    }
}

/// The layout of a FIFO, in words.
#[derive(Debug, Clone, Copy)]
struct Layout {
    /// Distance between slots.
    stride: usize,
}

impl Layout {
    /// Released slots; the receiver writes it.
    const HEAD: usize = 0;
    /// Posted slots, if the protocol counts them; the sender writes it.
    const TAIL: usize = LINE_WORDS;
    /// The first slot.
    const DATA: usize = 2 * LINE_WORDS;

    fn new<P: FifoProtocol>(slot_bytes: usize) -> Self {
        let slot = P::slot_words(slot_bytes).next_multiple_of(LINE_WORDS);
        // One line more: lines at distances of a large power of two compete for the same places in
        // a cache.
        Self {
            stride: slot + LINE_WORDS,
        }
    }

    fn words(self) -> usize {
        Self::DATA + SLOTS as usize * self.stride
    }

    /// The first word of a step's slot, from the first slot.
    #[inline(always)]
    fn start(self, step: u64) -> usize {
        (step % SLOTS) as usize * self.stride
    }

    fn data(self, words: &Words) -> Words {
        words.part(Self::DATA..Self::DATA + SLOTS as usize * self.stride)
    }
}
