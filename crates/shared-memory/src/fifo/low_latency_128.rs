//! The LL128 protocol: a line of words, the last of which is the flag of the line.
//!
//! The flag is the step number plus one, 64 bits wide, so it never comes round. It is stored with release after the
//! line's data and loaded with acquire before it, which makes the data ordinary memory: no processor has to keep a line
//! together, as NCCL's 128-byte lines need on GPUs, and a line can be as long as is fastest. That is one cache line
//! here, [`LowLatency128`]: a message of up to 56 bytes is one transfer between two cores.

use program::Protocol;

use super::credit::{ReceiveCredit, SendCredit};
use super::staging::Staging;
use super::{FifoProtocol, LOOKS, Layout, Receiver, Sender};
use crate::sync::{AtomicU64, Ordering, Words, load_bytes, pause, store_bytes};

/// The LL128 protocol with lines of `WORDS` words, a power of two.
#[derive(Debug, Clone, Copy)]
pub struct LowLatencyLine<const WORDS: usize>;

/// The LL128 protocol with the line that is fastest on CPUs: 64 bytes, of which 56 are data.
pub type LowLatency128 = LowLatencyLine<8>;

impl<const WORDS: usize> LowLatencyLine<WORDS> {
    /// Data bytes of a line.
    const DATA_BYTES: usize = (WORDS - 1) * 8;

    /// Lines for so many data bytes. A slot without data still has a flag to wait for.
    #[inline(always)]
    const fn lines(bytes: usize) -> usize {
        let lines = bytes.div_ceil(Self::DATA_BYTES);
        if lines == 0 { 1 } else { lines }
    }
}

impl<const WORDS: usize> FifoProtocol for LowLatencyLine<WORDS> {
    const PROTOCOL: Protocol = Protocol::Ll128;
    const GRAIN: usize = Self::DATA_BYTES;
    type Sender = LowLatency128Sender<WORDS>;
    type Receiver = LowLatency128Receiver<WORDS>;

    fn slot_words(bytes: usize) -> usize {
        Self::lines(bytes) * WORDS
    }

    fn sender(words: &Words, slot_bytes: usize, first_step: u64) -> LowLatency128Sender<WORDS> {
        let layout = Layout::new::<Self>(slot_bytes);
        LowLatency128Sender {
            credit: SendCredit::new(words, first_step),
            data: layout.data(words),
            layout,
            slot_bytes,
            staging: Staging::default(),
        }
    }

    fn receiver(words: &Words, slot_bytes: usize, first_step: u64) -> LowLatency128Receiver<WORDS> {
        let layout = Layout::new::<Self>(slot_bytes);
        LowLatency128Receiver {
            credit: ReceiveCredit::new(words, first_step),
            data: layout.data(words),
            layout,
            slot_bytes,
            staging: Staging::default(),
        }
    }
}

/// The sending end of a [`LowLatency128`] FIFO.
#[derive(Debug)]
pub struct LowLatency128Sender<const WORDS: usize> {
    credit: SendCredit,
    data: Words,
    layout: Layout,
    slot_bytes: usize,
    staging: Staging,
}

impl<const WORDS: usize> Sender for LowLatency128Sender<WORDS> {
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
        let line_bytes = LowLatencyLine::<WORDS>::DATA_BYTES;
        assert!(self.credit.is_known_free());
        assert!(offset.is_multiple_of(line_bytes));
        assert!(offset <= self.slot_bytes && bytes <= self.slot_bytes - offset);
        let step = self.credit.step();
        let first = self.layout.start(step) + offset / line_bytes * WORDS;
        let lines = self.data.slice(first, bytes.div_ceil(line_bytes) * WORDS);
        let mut source = source;
        let mut left = bytes;
        for line in lines.chunks_exact(WORDS) {
            let (flag, data) = line.split_last().expect("a line has words");
            if left >= line_bytes {
                // SAFETY: the slot is free, so that it is ours until the flag is stored; as many bytes are left of the
                // caller's, and the pointer stays among them or just behind.
                unsafe {
                    store_bytes(data, source, line_bytes);
                    source = source.add(line_bytes);
                }
                left -= line_bytes;
            } else {
                // SAFETY: as above.
                unsafe { store_bytes(data, source, left) };
            }
            // Release: the line's data comes before its flag.
            flag.store(step + 1, Ordering::Release);
        }
    }

    #[inline]
    fn post(&mut self, bytes: usize) {
        assert!(self.credit.is_known_free() && bytes <= self.slot_bytes);
        if bytes == 0 {
            let step = self.credit.step();
            let line = self.data.slice(self.layout.start(step), WORDS);
            line[WORDS - 1].store(step + 1, Ordering::Release);
        }
        self.credit.advance(bytes);
    }
}

/// The receiving end of a [`LowLatency128`] FIFO.
#[derive(Debug)]
pub struct LowLatency128Receiver<const WORDS: usize> {
    credit: ReceiveCredit,
    data: Words,
    layout: Layout,
    slot_bytes: usize,
    staging: Staging,
}

impl<const WORDS: usize> LowLatency128Receiver<WORDS> {
    #[inline(always)]
    fn has_come(&self, line: usize) -> bool {
        let step = self.credit.step();
        let first = self.layout.start(step) + line * WORDS;
        let words = self.data.slice(first, WORDS);
        words[WORDS - 1].load(Ordering::Acquire) == step + 1
    }
}

impl<const WORDS: usize> Receiver for LowLatency128Receiver<WORDS> {
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

    /// Looks at the last line. The others were written before, and reading looks at each of them again.
    #[inline]
    fn is_complete(&mut self, bytes: usize) -> bool {
        assert!(bytes <= self.slot_bytes);
        self.has_come(LowLatencyLine::<WORDS>::lines(bytes) - 1)
    }

    #[inline]
    unsafe fn read(&mut self, offset: usize, destination: *mut u8, bytes: usize) -> bool {
        let line_bytes = LowLatencyLine::<WORDS>::DATA_BYTES;
        assert!(offset.is_multiple_of(line_bytes));
        assert!(offset <= self.slot_bytes && bytes <= self.slot_bytes - offset);
        let step = self.credit.step();
        let first = self.layout.start(step) + offset / line_bytes * WORDS;
        let lines = self.data.slice(first, bytes.div_ceil(line_bytes) * WORDS);
        let mut destination = destination;
        let mut left = bytes;
        for line in lines.chunks_exact(WORDS) {
            let (flag, data) = line.split_last().expect("a line has words");
            // Acquire: the line's data comes with its flag.
            if flag.load(Ordering::Acquire) != step + 1 && !comes(flag, step + 1) {
                return false;
            }
            if left >= line_bytes {
                // SAFETY: the flag says that the line was handed to us, and it is not released; as many bytes are left
                // of the caller's, and the pointer stays among them or just behind.
                unsafe {
                    load_bytes(data, destination, line_bytes);
                    destination = destination.add(line_bytes);
                }
                left -= line_bytes;
            } else {
                // SAFETY: as above.
                unsafe { load_bytes(data, destination, left) };
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

/// Whether a flag gets this value.
#[cold]
fn comes(flag: &AtomicU64, value: u64) -> bool {
    (0..LOOKS).any(|_| {
        pause();
        flag.load(Ordering::Acquire) == value
    })
}
