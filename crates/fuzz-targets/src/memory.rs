//! Memory that other processes share: any words, overwritten between any operations of both ends of its connections.

use crate::shared_words::shared_memory_words;

use crate::mutate::Random;
use crate::target::Reached;

/// Bytes of the slots' size and the first step; operations come behind them.
const HEAD: usize = 2;

/// Operations and words from a few numbers.
pub fn seeds() -> Vec<Vec<u8>> {
    let seed = |number: u64| {
        let mut random = Random::new(number);
        (0..120).map(|_| random.below(256) as u8).collect()
    };
    (0..16).map(seed).collect()
}

/// Operates on the memory.
///
/// # Panics
/// A slot is longer than slots are, or more slots are under way than there are.
pub fn run(bytes: &[u8]) -> Reached {
    shared_memory_words(bytes);
    if bytes.len() > HEAD {
        Reached::Accepted
    } else {
        Reached::Outside
    }
}
