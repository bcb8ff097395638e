//! The addresses of the buffers of a rank's launches, for peers that access them directly.
//!
//! A rank publishes before it gives the first signal of a launch, and a peer reads after it took
//! that signal; a launch ends only when no peer needs its buffers any more. So the entries that a
//! peer uses are never read while they are written. Who only compares requests may read an entry
//! that is being written: its checksum does not fit.
//!
//! A launch that fails ends before its peers are done. Then the rank withdraws its buffers, and
//! waits while a peer accesses any: a peer announces each access, makes a fence, and looks whether
//! the buffers are withdrawn. So the peer sees that, or the rank sees the access.

use crate::sync::{LINE_WORDS, Ordering, SharedWord, Words, heavy_fence, light_fence};

/// Words of an entry: the launch, three words for each of three buffers, the request, and a
/// checksum, on a line of its own.
pub(crate) const ENTRY_WORDS: usize = LINE_WORDS;

/// Buffers of a launch: input, output, scratch.
pub const BUFFERS: usize = 3;

/// Words behind the entries: whether the buffers are withdrawn, and on a line of its own the
/// accesses of the rank, since the others read both.
const STATE_WORDS: usize = 2 * LINE_WORDS;

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
    /// Words of a table.
    pub(crate) fn words(entries: usize) -> usize {
        entries.max(1) * ENTRY_WORDS + STATE_WORDS
    }

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

    fn withdrawn(&self) -> &SharedWord {
        &self.words.slice(self.entries * ENTRY_WORDS, 1)[0]
    }

    /// Counts the begins and ends of accesses.
    fn accesses(&self) -> &SharedWord {
        &self.words.slice(self.entries * ENTRY_WORDS + LINE_WORDS, 1)[0]
    }

    /// Announces that the rank accesses buffers of peers. It must then ask
    /// [`Self::is_withdrawn`] of their tables.
    #[inline]
    pub fn begin_access(&self) {
        let count = self.accesses();
        // Only the rank's own thread writes it.
        let begun = count.load(Ordering::Relaxed).wrapping_add(1);
        count.store(begun, Ordering::Relaxed);
        light_fence(false);
    }

    /// The access has ended.
    #[inline]
    pub fn end_access(&self) {
        let count = self.accesses();
        let ended = count.load(Ordering::Relaxed).wrapping_add(1);
        // Release: what was accessed is accessed before.
        count.store(ended, Ordering::Release);
    }

    /// Whether peers may not access the rank's buffers any more.
    #[inline]
    pub fn is_withdrawn(&self) -> bool {
        self.withdrawn().load(Ordering::Relaxed) != 0
    }

    /// Withdraws the rank's buffers, for good. Accesses of peers that have begun may last:
    /// [`Self::await_access`] of their tables waits for each.
    pub fn withdraw(&self) {
        self.withdrawn().store(1, Ordering::Relaxed);
        heavy_fence(false);
    }

    /// Waits until the rank's access, if there is one, has ended; calls `pause` meanwhile, until it
    /// returns `false`.
    pub fn await_access(&self, mut pause: impl FnMut() -> bool) {
        let seen = self.accesses().load(Ordering::Acquire);
        if seen % 2 == 1 {
            while self.accesses().load(Ordering::Acquire) == seen && pause() {}
        }
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
