//! One mapping that contains a list of items for two ranks.

use std::fmt;
use std::sync::Arc;

use crate::bell::{Bell, RING_WORDS};
use crate::buffer_table::BufferTable;
use crate::error::Error;
use program::Protocol;
use serde::{Deserialize, Serialize};

use crate::fifo::{FifoProtocol, LowLatency, LowLatency128, Simple};
use crate::mapping::{Handle, Mapping};
use crate::signal::{Signal, SignalCount};
use crate::sync::{LINE_BYTES, LINE_WORDS, Ordering, Words};
use crate::tag_table::{TagReceiver, TagSender};

/// An item of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Item {
    /// A FIFO.
    Fifo {
        /// The protocol.
        protocol: Protocol,
        /// Data bytes of a slot.
        slot_bytes: usize,
    },
    /// A counter of signals.
    Signal,
    /// The bell of the rank that owns the segment.
    Bell,
    /// The owner's buffer table.
    BufferTable {
        /// Launches that can be in it at a time.
        entries: usize,
    },
    /// The tags of connections from one rank to another.
    TagTable {
        /// Most connections.
        entries: usize,
    },
}

impl Item {
    /// Whether it can be in this number of bytes. Another process may claim anything about its
    /// items.
    const fn fits(self, bytes: usize) -> bool {
        match self {
            Self::Fifo { slot_bytes, .. } => slot_bytes <= bytes,
            Self::BufferTable { entries } => entries <= bytes / LINE_BYTES,
            Self::TagTable { entries } => entries <= bytes / 8,
            Self::Signal | Self::Bell => true,
        }
    }

    fn words(self) -> usize {
        let words = match self {
            Self::Fifo {
                protocol,
                slot_bytes,
            } => match protocol {
                Protocol::Simple => Simple::fifo_words(slot_bytes),
                Protocol::Ll => LowLatency::fifo_words(slot_bytes),
                Protocol::Ll128 => LowLatency128::fifo_words(slot_bytes),
            },
            Self::Signal => LINE_WORDS,
            Self::Bell => RING_WORDS,
            Self::BufferTable { entries } => BufferTable::words(entries),
            Self::TagTable { entries } => entries,
        };
        words.next_multiple_of(LINE_WORDS)
    }

    /// Three numbers that identify the item.
    fn numbers(self) -> [u64; 3] {
        match self {
            Self::Fifo {
                protocol,
                slot_bytes,
            } => [1, protocol as u64, slot_bytes as u64],
            Self::Signal => [2, 0, 0],
            Self::Bell => [3, 0, 0],
            Self::BufferTable { entries } => [4, entries as u64, 0],
            Self::TagTable { entries } => [5, entries as u64, 0],
        }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fifo {
                protocol,
                slot_bytes,
            } => {
                write!(f, "a FIFO ({protocol}) of {slot_bytes}-byte slots")
            }
            Self::Signal => f.write_str("a signal"),
            Self::Bell => f.write_str("a bell"),
            Self::BufferTable { entries } => write!(f, "a buffer table of {entries} entries"),
            Self::TagTable { entries } => write!(f, "a table of {entries} tags"),
        }
    }
}

/// A mapping that contains a list of items, and a record of the ends that were taken.
///
/// Each rank owns one: FIFOs and signals towards it, its bell and its buffer table. Other processes
/// map it with its [`Handle`] and the same list.
#[derive(Debug)]
pub struct Segment {
    mapping: Arc<Mapping>,
    items: Vec<(Item, Words)>,
    /// The taken ends of each item.
    taken: Words,
}

/// Most items of a segment in huge pages. With more peers most of them send little, and a huge page
/// for the counters of each would take more memory than all data.
const MOST_HUGE_ITEMS: usize = 32;

/// Bits of the word of taken ends.
const SENDING: u64 = 1;
const RECEIVING: u64 = 2;

impl Segment {
    /// A segment within this process.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn private(name: &str, items: &[Item]) -> Result<Self, Error> {
        Self::create(Mapping::private(name, Self::bytes(items))?, items)
    }

    /// A segment that other processes can open.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn shared(name: &str, items: &[Item]) -> Result<Self, Error> {
        Self::create(Mapping::shared(name, Self::bytes(items))?, items)
    }

    /// Opens the segment of another process, which was made with the same items.
    ///
    /// # Errors
    /// The memory cannot be opened, or has another layout.
    pub fn open(handle: &Handle, items: &[Item]) -> Result<Self, Error> {
        let mapping = Mapping::open(handle)?;
        if items.len() > MOST_HUGE_ITEMS {
            mapping.use_small_pages();
        }
        let segment = Self::new(mapping, items)?;
        let header = segment.header();
        if header.slice(0, 1)[0].load(Ordering::Acquire) != fingerprint(items) {
            return Err(Error::Layout {
                name: segment.mapping.name().to_owned(),
            });
        }
        Ok(segment)
    }

    /// Bytes of a segment with these items.
    pub fn bytes(items: &[Item]) -> usize {
        let words = items.iter().map(|item| item.words());
        let words = words.fold(0, usize::saturating_add);
        (LINE_WORDS + taken_words(items))
            .saturating_add(words)
            .saturating_mul(8)
    }

    fn create(mapping: Mapping, items: &[Item]) -> Result<Self, Error> {
        if items.len() > MOST_HUGE_ITEMS {
            mapping.use_small_pages();
        }
        let segment = Self::new(mapping, items)?;
        segment.header().slice(0, 1)[0].store(fingerprint(items), Ordering::Release);
        Ok(segment)
    }

    fn new(mapping: Mapping, items: &[Item]) -> Result<Self, Error> {
        let fit = items.iter().all(|item| item.fits(mapping.bytes()));
        if !fit || mapping.bytes() != Self::bytes(items) {
            return Err(Error::Layout {
                name: mapping.name().to_owned(),
            });
        }
        let mapping = Arc::new(mapping);
        let mut end = LINE_BYTES;
        let mut next = |words: usize| {
            let start = end;
            end += words * 8;
            Words::new(&mapping, start..end)
        };
        let taken = next(taken_words(items));
        let items = items
            .iter()
            .map(|&item| (item, next(item.words())))
            .collect();
        Ok(Self {
            mapping,
            items,
            taken,
        })
    }

    fn header(&self) -> Words {
        Words::new(&self.mapping, 0..LINE_BYTES)
    }

    /// The mapping.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Checks an item, such as a FIFO with slots of this length.
    ///
    /// # Errors
    /// It is another one.
    pub fn expect(&self, index: usize, expected: Item) -> Result<(), Error> {
        self.words(index, expected).map(|_| ())
    }

    /// Checks that the segment has these items.
    ///
    /// # Errors
    /// It has others.
    pub fn expect_all(&self, items: &[Item]) -> Result<(), Error> {
        if self.items.iter().map(|(item, _)| item).eq(items) {
            return Ok(());
        }
        Err(Error::Layout {
            name: self.mapping.name().to_owned(),
        })
    }

    /// The sending end of an item that is a FIFO of protocol `P`.
    ///
    /// # Errors
    /// The item is something else, or the end was taken before.
    pub fn sender<P: FifoProtocol>(&self, index: usize) -> Result<P::Sender, Error> {
        self.sender_from::<P>(index, 0)
    }

    /// The receiving end of an item that is a FIFO of protocol `P`.
    ///
    /// # Errors
    /// The item is something else, or the end was taken before.
    pub fn receiver<P: FifoProtocol>(&self, index: usize) -> Result<P::Receiver, Error> {
        self.receiver_from::<P>(index, 0)
    }

    /// As [`Self::sender`], but counts steps from `first_step`; the receiver must use the same.
    ///
    /// # Errors
    /// As [`Self::sender`].
    pub fn sender_from<P: FifoProtocol>(
        &self,
        index: usize,
        first_step: u64,
    ) -> Result<P::Sender, Error> {
        let (slot_bytes, words) = self.fifo::<P>(index)?;
        self.take(index, SENDING, "sending end")?;
        Ok(P::sender(words, slot_bytes, first_step))
    }

    /// As [`Self::receiver`], but counts steps from `first_step`; the sender must use the same.
    ///
    /// # Errors
    /// As [`Self::receiver`].
    pub fn receiver_from<P: FifoProtocol>(
        &self,
        index: usize,
        first_step: u64,
    ) -> Result<P::Receiver, Error> {
        let (slot_bytes, words) = self.fifo::<P>(index)?;
        self.take(index, RECEIVING, "receiving end")?;
        Ok(P::receiver(words, slot_bytes, first_step))
    }

    /// Whether the receiving end of an item was taken.
    pub fn is_received(&self, index: usize) -> bool {
        let taken = self.taken.slice(index, 1)[0].load(Ordering::Relaxed);
        taken & RECEIVING != 0
    }

    /// The end of a signal that gives signals.
    ///
    /// # Errors
    /// The item is something else, or the end was taken before.
    pub fn signal(&self, index: usize) -> Result<Signal, Error> {
        let words = self.words(index, Item::Signal)?;
        self.take(index, SENDING, "giving end")?;
        Ok(Signal::new(words.word(0)))
    }

    /// The end of a signal that takes signals.
    ///
    /// # Errors
    /// The item is something else, or the end was taken before.
    pub fn signal_count(&self, index: usize) -> Result<SignalCount, Error> {
        let words = self.words(index, Item::Signal)?;
        self.take(index, RECEIVING, "taking end")?;
        Ok(SignalCount::new(words.word(0)))
    }

    /// The bell. Any number of ranks may hold it; its owner sleeps on it.
    ///
    /// # Errors
    /// The item is something else.
    pub fn bell(&self, index: usize) -> Result<Bell, Error> {
        Ok(Bell::new(self.words(index, Item::Bell)?))
    }

    /// The buffer table. Any number of ranks may hold it; only its owner publishes.
    ///
    /// # Errors
    /// The item is something else.
    pub fn buffer_table(&self, index: usize) -> Result<BufferTable, Error> {
        let entries = |item| match item {
            Item::BufferTable { entries } => Some(entries),
            _ => None,
        };
        let (entries, words) = self.item(index, "a buffer table", entries)?;
        Ok(BufferTable::new(words, entries))
    }

    /// The sender's end of a table of tags.
    ///
    /// # Errors
    /// The item is something else, or the end was taken before.
    pub fn tag_sender(&self, index: usize) -> Result<TagSender, Error> {
        let (entries, words) = self.tag_table(index)?;
        self.take(index, SENDING, "sending end")?;
        Ok(TagSender::new(words, entries))
    }

    /// The receiver's end of a table of tags.
    ///
    /// # Errors
    /// As [`Self::tag_sender`].
    pub fn tag_receiver(&self, index: usize) -> Result<TagReceiver, Error> {
        let (entries, words) = self.tag_table(index)?;
        self.take(index, RECEIVING, "receiving end")?;
        Ok(TagReceiver::new(words, entries))
    }

    fn tag_table(&self, index: usize) -> Result<(usize, &Words), Error> {
        self.item(index, "a table of tags", |item| match item {
            Item::TagTable { entries } => Some(entries),
            _ => None,
        })
    }

    fn fifo<P: FifoProtocol>(&self, index: usize) -> Result<(usize, &Words), Error> {
        let expected = format!("a FIFO ({})", P::PROTOCOL);
        let (slot_bytes, words) = self.item(index, &expected, |item| match item {
            Item::Fifo {
                protocol,
                slot_bytes,
            } if protocol == P::PROTOCOL => Some(slot_bytes),
            _ => None,
        })?;
        if P::fifo_words(slot_bytes) > self.items[index].0.words() {
            // A type of this protocol with other lines than the segment's.
            return Err(self.wrong_item(index, &expected));
        }
        Ok((slot_bytes, words))
    }

    /// The words of an item that must be this one.
    fn words(&self, index: usize, expected: Item) -> Result<&Words, Error> {
        let same = |item| (item == expected).then_some(());
        Ok(self.item(index, &expected.to_string(), same)?.1)
    }

    fn item<T>(
        &self,
        index: usize,
        expected: &str,
        accept: impl Fn(Item) -> Option<T>,
    ) -> Result<(T, &Words), Error> {
        let found = self.items.get(index);
        let accepted = found.and_then(|(item, words)| Some((accept(*item)?, words)));
        accepted.ok_or_else(|| self.wrong_item(index, expected))
    }

    fn wrong_item(&self, index: usize, expected: &str) -> Error {
        let found = self.items.get(index);
        Error::Item {
            name: self.mapping.name().to_owned(),
            index,
            found: found.map_or_else(|| "missing".to_owned(), |(item, _)| item.to_string()),
            expected: expected.to_owned(),
        }
    }

    /// Takes an end, which only one holder in all processes may have.
    fn take(&self, index: usize, end: u64, name: &'static str) -> Result<(), Error> {
        let before = self.taken.slice(index, 1)[0].fetch_or(end, Ordering::Relaxed);
        if before & end != 0 {
            let segment = self.mapping.name().to_owned();
            return Err(Error::Taken {
                name: segment,
                index,
                end: name,
            });
        }
        Ok(())
    }
}

fn taken_words(items: &[Item]) -> usize {
    items.len().next_multiple_of(LINE_WORDS)
}

/// Identifies a list of items (FNV-1a over their numbers). Never 0, the value of empty memory.
fn fingerprint(items: &[Item]) -> u64 {
    let numbers = items.iter().flat_map(|item| item.numbers());
    let bytes = numbers.flat_map(u64::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    }) | 1
}
