//! Heads that were read before.

use super::{Head, NAME, NoHosts, find};

/// Most heads that are remembered.
const MOST_HEADS: usize = 64;

/// The last first heads of lines, each with the beginning of its line. Ranks write by turns, and
/// most heads come again, which is compared sooner than read.
#[derive(Debug)]
pub(crate) struct Heads<'a> {
    /// By a hash of the bytes before NCCL's name.
    all: [Option<(&'a str, Head<'a>)>; MOST_HEADS],
    /// The place of the one before.
    last: usize,
}

impl Default for Heads<'_> {
    fn default() -> Self {
        Self {
            all: [None; MOST_HEADS],
            last: 0,
        }
    }
}

impl<'a> Heads<'a> {
    /// The first head of a line.
    pub(super) fn first(&mut self, line: &'a str) -> Option<Head<'a>> {
        let known = |it: &Option<(&str, Head<'a>)>| match it {
            Some((begin, head)) if line.as_bytes().starts_with(begin.as_bytes()) => Some(*head),
            _ => None,
        };
        if let Some(head) = known(&self.all[self.last]) {
            return Some(head);
        }
        let name = NAME.find(line.as_bytes());
        let before = name.and_then(|at| line.as_bytes()[..at].last_chunk());
        let Some(before) = before else {
            return find(line, line, &NoHosts);
        };
        // The processes of a host differ in the last digits, which come before the GPU.
        let hash = u128::from_le_bytes(*before).wrapping_mul(FACTOR) >> (u128::BITS - 6);
        self.last = hash as usize;
        let head = known(&self.all[self.last]).or_else(|| find(line, line, &NoHosts));
        // Who asks for a place also asks where in its line it is. A head of before 2.3 has no NCCL,
        // and may begin a line that has a whole one further on.
        let is_whole = |it: &Head<'_>| NAME.find(&line.as_bytes()[..it.end]).is_some();
        let is_plain = |it: &Head<'_>| {
            it.source.is_some() && it.place.is_none() && it.end < line.len() && is_whole(it)
        };
        if let Some(head) = head.filter(is_plain) {
            self.all[self.last] = Some((&line[..head.end], head));
        }
        head
    }
}

/// An odd number of a multiplicative hash: the golden ratio's.
const FACTOR: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
