//! FIFOs whose slots are lines with flags: LL and LL128 differ only in the line.

use std::fmt::Debug;
use std::marker::PhantomData;

use program::Protocol;

use super::credit::{ReceiveCredit, SendCredit};
use super::staging::Staging;
use super::{FifoProtocol, LOOKS, Layout, Receiver, Sender};
use crate::sync::{SharedWord, Words, pause};

/// A line of a slot: data bytes with a flag that identifies the step.
pub trait Line: Debug + Send + Sized {
    /// The protocol with these lines.
    const PROTOCOL: Protocol;
    /// Words of a line.
    const WORDS: usize;
    /// Data bytes of a line.
    const DATA_BYTES: usize;
    /// Data that [`Self::arrived`] has loaded already.
    type Loaded;

    /// The flag of a step.
    fn flag(step: u64) -> u64;

    /// Whether the sender writes all flags of this step's slot, even of lines without data.
    fn cleans(_step: u64) -> bool {
        false
    }

    /// Stores at most [`Self::DATA_BYTES`] bytes, then the flag.
    ///
    /// # Safety
    /// `bytes` bytes can be read at `source`, and the slot is free: nobody else uses the line until
    /// the flag is stored.
    unsafe fn store(line: &[SharedWord], flag: u64, source: *const u8, bytes: usize);

    /// Stores the flag of a line without data.
    fn store_flag(line: &[SharedWord], flag: u64);

    /// Checks for the flag; `None` if the line has another one.
    fn arrived(line: &[SharedWord], flag: u64) -> Option<Self::Loaded>;

    /// Copies `bytes` bytes of a line that has arrived.
    ///
    /// # Safety
    /// `bytes` bytes can be written at `destination`, at most as many as a line holds, and the slot
    /// is not released.
    unsafe fn load(line: &[SharedWord], loaded: Self::Loaded, destination: *mut u8, bytes: usize);
}

/// Lines of this many data bytes. An empty slot has one, for its flag.
#[inline(always)]
const fn lines<L: Line>(bytes: usize) -> usize {
    let lines = bytes.div_ceil(L::DATA_BYTES);
    if lines == 0 { 1 } else { lines }
}

impl<L: Line> FifoProtocol for L {
    const PROTOCOL: Protocol = L::PROTOCOL;
    const GRAIN: usize = L::DATA_BYTES;
    type Sender = LineSender<L>;
    type Receiver = LineReceiver<L>;

    fn slot_words(bytes: usize) -> usize {
        lines::<L>(bytes) * L::WORDS
    }

    fn sender(words: &Words, slot_bytes: usize, first_step: u64) -> LineSender<L> {
        LineSender {
            credit: SendCredit::new(words, first_step),
            slots: Slots::new(words, slot_bytes),
        }
    }

    fn receiver(words: &Words, slot_bytes: usize, first_step: u64) -> LineReceiver<L> {
        LineReceiver {
            credit: ReceiveCredit::new(words, first_step),
            slots: Slots::new(words, slot_bytes),
        }
    }
}

/// The slots of a FIFO, and the staging memory of one end.
#[derive(Debug)]
struct Slots<L> {
    data: Words,
    layout: Layout,
    slot_bytes: usize,
    staging: Staging,
    line: PhantomData<L>,
}

impl<L: Line> Slots<L> {
    fn new(words: &Words, slot_bytes: usize) -> Self {
        let layout = Layout::new::<L>(slot_bytes);
        Self {
            data: layout.data(words),
            layout,
            slot_bytes,
            staging: Staging::default(),
            line: PhantomData,
        }
    }

    #[inline(always)]
    fn stage(&mut self, bytes: usize) -> *mut u8 {
        assert!(bytes <= self.slot_bytes);
        self.staging.address(bytes)
    }

    /// `count` lines of a step's slot, from the `first` on.
    #[inline(always)]
    fn lines(&self, step: u64, first: usize, count: usize) -> &[SharedWord] {
        let start = self.layout.start(step) + first * L::WORDS;
        self.data.slice(start, count * L::WORDS)
    }

    /// The full lines of a range of the slot's data, and the partial line behind them.
    #[inline(always)]
    fn range(&self, step: u64, offset: usize, bytes: usize) -> (&[SharedWord], &[SharedWord]) {
        assert!(offset.is_multiple_of(L::DATA_BYTES));
        assert!(offset <= self.slot_bytes && bytes <= self.slot_bytes - offset);
        let first = offset / L::DATA_BYTES;
        let all = self.lines(step, first, bytes.div_ceil(L::DATA_BYTES));
        all.split_at(bytes / L::DATA_BYTES * L::WORDS)
    }
}

/// The sending end of a FIFO of lines.
#[derive(Debug)]
pub struct LineSender<L> {
    credit: SendCredit,
    slots: Slots<L>,
}

impl<L: Line> Sender for LineSender<L> {
    #[inline]
    fn slot_bytes(&self) -> usize {
        self.slots.slot_bytes
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
        self.slots.stage(bytes)
    }

    #[inline]
    fn post_slot(&mut self, bytes: usize) {
        let source = self.slots.stage(bytes);
        // SAFETY: the staging memory has as many bytes.
        unsafe { self.write(0, source, bytes) };
        self.post(bytes);
    }

    #[inline]
    unsafe fn write(&mut self, offset: usize, source: *const u8, bytes: usize) {
        assert!(self.credit.is_known_free());
        let step = self.credit.step();
        let (full, rest) = self.slots.range(step, offset, bytes);
        let flag = L::flag(step);
        for (index, line) in full.chunks_exact(L::WORDS).enumerate() {
            // SAFETY: the slot is free, and the line's data is among the caller's `bytes`.
            unsafe {
                let from = source.add(index * L::DATA_BYTES);
                L::store(line, flag, from, L::DATA_BYTES);
            }
        }
        if !rest.is_empty() {
            let last = bytes % L::DATA_BYTES;
            // SAFETY: the slot is free, and these are the last of the caller's `bytes`.
            unsafe { L::store(rest, flag, source.add(bytes - last), last) };
        }
    }

    #[inline]
    fn post(&mut self, bytes: usize) {
        assert!(self.credit.is_known_free() && bytes <= self.slots.slot_bytes);
        let step = self.credit.step();
        if bytes == 0 || L::cleans(step) {
            self.flags_only(step, bytes);
        }
        self.credit.advance(bytes);
    }
}

impl<L: Line> LineSender<L> {
    /// Writes flags behind the data: one if there is no data, all of the slot if the step cleans.
    #[cold]
    fn flags_only(&self, step: u64, bytes: usize) {
        let first = bytes.div_ceil(L::DATA_BYTES);
        let end = if L::cleans(step) {
            lines::<L>(self.slots.slot_bytes)
        } else {
            lines::<L>(bytes)
        };
        let lines = self.slots.lines(step, first, end - first);
        for line in lines.chunks_exact(L::WORDS) {
            L::store_flag(line, L::flag(step));
        }
    }
}

/// The receiving end of a FIFO of lines.
#[derive(Debug)]
pub struct LineReceiver<L> {
    credit: ReceiveCredit,
    slots: Slots<L>,
}

impl<L: Line> LineReceiver<L> {
    #[inline(always)]
    fn has_come(&self, line: usize) -> bool {
        let step = self.credit.step();
        L::arrived(self.slots.lines(step, line, 1), L::flag(step)).is_some()
    }
}

impl<L: Line> Receiver for LineReceiver<L> {
    #[inline]
    fn slot_bytes(&self) -> usize {
        self.slots.slot_bytes
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

    /// Checks the last line. The others were written before, and `read` checks each of them again.
    #[inline]
    fn is_complete(&mut self, bytes: usize) -> bool {
        assert!(bytes <= self.slots.slot_bytes);
        self.has_come(lines::<L>(bytes) - 1)
    }

    #[inline]
    unsafe fn read(&mut self, offset: usize, destination: *mut u8, bytes: usize) -> bool {
        let step = self.credit.step();
        let (full, rest) = self.slots.range(step, offset, bytes);
        let flag = L::flag(step);
        for (index, line) in full.chunks_exact(L::WORDS).enumerate() {
            let Some(loaded) = take::<L>(line, flag) else {
                return false;
            };
            // SAFETY: the line has arrived, the slot is not released, and its data has room among
            // the caller's `bytes`.
            unsafe {
                let to = destination.add(index * L::DATA_BYTES);
                L::load(line, loaded, to, L::DATA_BYTES);
            }
        }
        if !rest.is_empty() {
            let Some(loaded) = take::<L>(rest, flag) else {
                return false;
            };
            let last = bytes % L::DATA_BYTES;
            // SAFETY: as above; these are the last of the caller's `bytes`.
            unsafe { L::load(rest, loaded, destination.add(bytes - last), last) };
        }
        true
    }

    #[inline]
    fn slot(&mut self, bytes: usize) -> Option<*const u8> {
        let staging = self.slots.stage(bytes);
        // SAFETY: the staging memory has as many bytes.
        unsafe { self.read(0, staging, bytes) }.then_some(staging.cast_const())
    }

    #[inline]
    fn release(&mut self) {
        self.credit.release();
    }
}

/// Checks for a line's flag, several times if it is missing; `None` if it does not arrive.
#[inline(always)]
fn take<L: Line>(line: &[SharedWord], flag: u64) -> Option<L::Loaded> {
    match L::arrived(line, flag) {
        None => look_again::<L>(line, flag),
        loaded => loaded,
    }
}

#[cold]
fn look_again<L: Line>(line: &[SharedWord], flag: u64) -> Option<L::Loaded> {
    (0..LOOKS).find_map(|_| {
        pause();
        L::arrived(line, flag)
    })
}
