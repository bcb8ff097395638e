//! The connection from one rank to another that has the messages of a tag.
//!
//! The sender numbers its connections to the receiver, and gives each to one tag at a time. It
//! gives one to another tag when the receiver took all messages that were sent there, and waits for
//! none.

use crate::sync::{Ordering, SharedWord, Words};

/// Connections that a sender makes before it gives one to another tag.
const FEW: usize = 4;

/// Bits of an entry: the tag, 0 if it has none yet; messages that were taken, modulo 2^31; whether
/// the receiver waits for one.
const TAG_SHIFT: u32 = 32;
const TAKEN: u64 = 0xffff_fffe;
const ONE_TAKEN: u64 = 2;
const WAITS: u64 = 1;

fn entry(tag: u32, taken: u64) -> u64 {
    u64::from(tag) << TAG_SHIFT | taken
}

/// A connection as its sender knows it.
#[derive(Debug)]
struct Numbered {
    tag: u32,
    /// Messages that were sent, as in an entry.
    sent: u64,
}

/// The sender's end. Only this end changes tags.
#[derive(Debug)]
pub struct TagSender {
    words: Words,
    most: usize,
    numbered: Vec<Numbered>,
    /// Where the search for a connection without messages continues.
    next: usize,
}

impl TagSender {
    pub(crate) fn new(words: &Words, most: usize) -> Self {
        Self {
            words: words.clone(),
            most,
            numbered: Vec::new(),
            next: 0,
        }
    }

    /// The number of the connection for the next message of a tag other than 0, which counts as
    /// sent from now on, and whether the tag got it now: then the receiver may wait for it. `None`
    /// if all connections have messages of other tags.
    pub fn send(&mut self, tag: u32) -> Option<(usize, bool)> {
        let known = self.find(tag);
        let number = known.or_else(|| self.assign(tag))?;
        self.note_sent(number);
        Some((number, known.is_none()))
    }

    /// Counts a message that was sent over a connection.
    pub fn note_sent(&mut self, number: usize) {
        let sent = &mut self.numbered[number].sent;
        *sent = (*sent + ONE_TAKEN) & TAKEN;
    }

    /// The number of the connection that a tag other than 0 has.
    pub fn find(&self, tag: u32) -> Option<usize> {
        self.numbered.iter().position(|it| it.tag == tag)
    }

    fn assign(&mut self, tag: u32) -> Option<usize> {
        let count = self.numbered.len();
        if count >= FEW.min(self.most) {
            for _ in 0..count {
                let number = self.next;
                self.next = (number + 1) % count;
                let Numbered { tag: before, sent } = self.numbered[number];
                let (from, to) = (entry(before, sent), entry(tag, sent));
                let word = &self.words.slice(number, 1)[0];
                let given = word.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
                if given.is_ok() {
                    self.numbered[number].tag = tag;
                    return Some(number);
                }
            }
        }
        if count == self.most {
            return None;
        }
        self.words.slice(count, 1)[0].store(entry(tag, 0), Ordering::Release);
        self.numbered.push(Numbered { tag, sent: 0 });
        Some(count)
    }
}

/// The receiver's end. Only this end counts messages that were taken.
#[derive(Debug)]
pub struct TagReceiver {
    words: Words,
    most: usize,
}

impl TagReceiver {
    pub(crate) fn new(words: &Words, most: usize) -> Self {
        Self {
            words: words.clone(),
            most,
        }
    }

    /// The number of the connection with the messages of a tag other than 0, which keeps its tag
    /// until [`Self::end`]. `None` if nothing was sent yet.
    pub fn begin(&mut self, tag: u32) -> Option<usize> {
        let (number, found) = self.find(tag)?;
        let waits = Self::wait(&self.words.slice(number, 1)[0], found);
        waits.then_some(number)
    }

    /// Whether a connection has a tag other than 0.
    pub fn is_sent(&self, tag: u32) -> bool {
        self.find(tag).is_some()
    }

    /// The number of the connection of a tag, and its entry.
    fn find(&self, tag: u32) -> Option<(usize, u64)> {
        for (number, word) in self.words.slice(0, self.most).iter().enumerate() {
            let found = word.load(Ordering::Acquire);
            match (found >> TAG_SHIFT) as u32 {
                0 => return None,
                other if other == tag => return Some((number, found)),
                _ => {}
            }
        }
        None
    }

    /// Notes that this end waits. Returns `false` if the tag changed.
    fn wait(word: &SharedWord, found: u64) -> bool {
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        word.compare_exchange(found, found | WAITS, order.0, order.1)
            .is_ok()
    }

    /// Ends the wait for a message over a connection, which was taken or not.
    pub fn end(&mut self, number: usize, was_taken: bool) {
        let word = &self.words.slice(number, 1)[0];
        let found = word.load(Ordering::Relaxed);
        let taken = (found & TAKEN) + if was_taken { ONE_TAKEN } else { 0 };
        let tag = (found >> TAG_SHIFT) as u32;
        word.store(entry(tag, taken & TAKEN), Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::{Item, Segment};

    #[test]
    fn a_connection_changes_its_tag_when_all_was_taken_and_nobody_waits() {
        let items = [Item::TagTable { entries: 5 }];
        let segment = Segment::private("tags", &items).expect("there is memory");
        let mut sender = segment.tag_sender(0).expect("it is not taken");
        let mut receiver = segment.tag_receiver(0).expect("it is not taken");
        assert_eq!(receiver.begin(7), None);
        for tag in 1..=4 {
            assert_eq!(sender.send(tag), Some((tag as usize - 1, true)));
        }
        assert_eq!(sender.send(2), Some((1, false)));
        // All have messages.
        assert_eq!(sender.send(5), Some((4, true)));
        assert_eq!(sender.send(6), None);
        let number = receiver.begin(2).expect("it was sent");
        receiver.end(number, true);
        assert_eq!(sender.send(6), None);
        assert_eq!(receiver.begin(2), Some(number));
        receiver.end(number, true);
        // The receiver waits for one more.
        assert_eq!(receiver.begin(2), Some(number));
        assert_eq!(sender.send(6), None);
        receiver.end(number, false);
        assert_eq!(sender.send(6), Some((number, true)));
        assert!(!receiver.is_sent(2) && receiver.is_sent(6));
        assert_eq!(receiver.begin(2), None);
        assert_eq!(receiver.begin(6), Some(number));
    }
}
