//! The addresses of the buffers of a rank's launches, for peers that access them directly.
//!
//! A rank publishes before it gives the first signal of a launch, and a peer reads after it took
//! that signal; a launch ends only when no peer needs its buffers any more. So the entries that a
//! peer uses are never read while they are written. Who only compares requests may read an entry
//! that is being written: its checksum does not fit.

use crate::sync::{LINE_WORDS, Ordering, Words};

/// Words of an entry: the launch, three words for each of three buffers, the request, and a
/// checksum, on a line of its own.
pub(crate) const ENTRY_WORDS: usize = LINE_WORDS;

/// Buffers of a launch: input, output, scratch.
pub const BUFFERS: usize = 3;

/// Words that describe the buffers of a launch and its request.
const WORDS: usize = BUFFERS * 3 + 1;

const _: () = assert!(WORDS + 2 <= ENTRY_WORDS);

/// The place of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// An address in the rank's process.
    Address(u64),
    /// An offset in memory that the rank registered and its peers map.
    Registered {
        /// Number of the registration, counted by the rank.
        allocation: u32,
        /// Bytes from its start.
        offset: u64,
    },
}

/// A buffer of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Descriptor {
    /// Its place.
    pub place: Place,
    /// Length, bytes.
    pub bytes: u64,
}

impl Descriptor {
    /// An empty buffer.
    pub const EMPTY: Self = Self {
        place: Place::Address(0),
        bytes: 0,
    };

    fn to_words(self) -> [u64; 3] {
        match self.place {
            Place::Address(address) => [0, address, self.bytes],
            Place::Registered { allocation, offset } => {
                [1 + u64::from(allocation), offset, self.bytes]
            }
        }
    }

    fn from_words([kind, place, bytes]: [u64; 3]) -> Self {
        let place = match kind {
            0 => Place::Address(place),
            _ => Place::Registered {
                allocation: (kind - 1) as u32,
                offset: place,
            },
        };
        Self { place, bytes }
    }
}

/// The checksum of an entry. Peers write to the addresses in it, so they must notice if it was
/// overwritten. It is not keyed: a process that can forge an entry can write the rank's memory
/// anyway.
#[inline]
fn checksum(launch: u64, words: &[u64; WORDS]) -> u64 {
    // 2^64 divided by the golden ratio: an odd number without a pattern.
    let mix = |sum: u64, word: &u64| {
        (sum ^ word)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    };
    words.iter().fold(mix(0, &!launch), mix)
}

/// A rank's buffer table.
#[derive(Debug, Clone)]
pub struct BufferTable {
    words: Words,
    entries: usize,
}

impl BufferTable {
    pub(crate) fn new(words: &Words, entries: usize) -> Self {
        Self {
            words: words.clone(),
            entries: entries.max(1),
        }
    }

    #[inline]
    fn first(&self, launch: u64) -> usize {
        (launch % self.entries as u64) as usize * ENTRY_WORDS
    }

    /// Publishes the buffers of a launch, in place of an earlier launch's. Launches count from 1.
    /// `request` is a hash of everything that ranks must request alike.
    #[inline]
    pub fn publish(&self, launch: u64, request: u64, buffers: &[Descriptor; BUFFERS]) {
        let entry = self.words.slice(self.first(launch), ENTRY_WORDS);
        let mut words = [request; WORDS];
        for (to, buffer) in words.chunks_exact_mut(3).zip(buffers) {
            to.copy_from_slice(&buffer.to_words());
        }
        for (to, word) in entry[1..].iter().zip(words) {
            to.store(word, Ordering::Relaxed);
        }
        entry[1 + WORDS].store(checksum(launch, &words), Ordering::Relaxed);
        // Release: the buffers are stored before the launch's number.
        entry[0].store(launch, Ordering::Release);
    }

    /// The last launch that was published in place of this one or before it; 0 if there was none.
    #[inline]
    pub fn last(&self, launch: u64) -> u64 {
        self.words.slice(self.first(launch), 1)[0].load(Ordering::Acquire)
    }

    /// The request and the buffers of a launch; `None` if they were not published yet, or were
    /// overwritten.
    #[inline]
    pub fn read(&self, launch: u64) -> Option<(u64, [Descriptor; BUFFERS])> {
        let entry = self.words.slice(self.first(launch), ENTRY_WORDS);
        // Acquire: the buffers are loaded after the launch's number.
        if entry[0].load(Ordering::Acquire) != launch {
            return None;
        }
        let words: [u64; WORDS] =
            std::array::from_fn(|word| entry[1 + word].load(Ordering::Relaxed));
        if entry[1 + WORDS].load(Ordering::Relaxed) != checksum(launch, &words) {
            return None;
        }
        let buffer = |at: usize| Descriptor::from_words([words[at], words[at + 1], words[at + 2]]);
        Some((words[WORDS - 1], [buffer(0), buffer(3), buffer(6)]))
    }
}
