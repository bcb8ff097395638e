//! Finds many words in a text, nearly always by a quick look that there is none.
//!
//! An automaton waits for memory at each byte, which takes several times as long, and is made in
//! the time of a megabyte of text. Of each word four bytes are looked for, hashed, at every second
//! place of the text; where they are, the word is compared.

use rustc_hash::{FxHashMap, FxHashSet};

/// Bytes of a part. No word is shorter.
const LENGTH: usize = 4;

/// The table has so many bits, as a power of two: with a third of a percent of them set, nine of
/// ten lines have no part of a word.
const BITS: u32 = 20;

/// What most lines of NCCL's logs are made of. Parts that are in it say little.
const USUAL: &str = "NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read [send] [receive] via NET/IB/0(3)/GDRDMA \
    SHM/direct/direct Ring 00 : 0 -> 1 -> 2 Trees [0] 1/-1/-1->0->-1 AllReduce: opCount 2a sendbuff 0x7f recvbuff \
    0x7f count 2097152 datatype 7 op 0 root 0 comm 0x55 [nranks=64] stream 0x55 AllGather: ReduceScatter: \
    8388608 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15} proxyProgressAsync opId=0x7f op.type=3 \
    op.reqBuff=0x7f op.respSize=88 done Mem Realloc old size 0, new size 8 pointer 0x7f Connected all rings, use \
    ring PXN 0 GDR 1 Connected all trees ncclCommInitRank comm 0x55 rank 5 nranks 64 cudaDev 5 nvmlDev 5 busId \
    65000 commId 0xde - Init START - Init COMPLETE P2P Chunksize set to 524288 Using network IB Setting affinity \
    for GPU 0 to ffff NVLS multicast support is available on dev 0 New proxy send connection 3 from local rank 0, \
    transport 2 Connection to proxy localRank 0 -> connection 0x7f transport/net.cc:656 Cuda Alloc Size 8 pointer \
    NET/Plugin: Failed to find ncclCollNetPlugin_v10 symbol. Could not find: libnccl-profiler.so Plugin name set \
    PROFILER/Plugin: TUNER/Plugin: Using internal tuner plugin. NET/IB : No device found. NET/Socket : Using [0]eth0 \
    Received and initiated operation=Setup res=0 resp.opId matches expected opId Device 0 CPU core 0 mlx5_0:1/RoCE \
    [RO]; OOB NCCL_IB_HCA set by environment to initialized internal network Bootstrap timings total 0.2 (create \
    [Proxy Service UDS] [Proxy Progress] coll channels, collnet channels, nvls channels, p2p channels per peer \
    Socket SHARP SHM NVLS Pattern crossNic nChannels bw type sameChannels threadThresholds exitcode: 0, plugin \
    CollNet 02 via COLLNET/SHARP AWS Libfabric ncclPollProxyResponse Received Bootstrap : NVIDIA CPU SHARP coll init error";

/// Words by their parts.
#[derive(Debug)]
pub(crate) struct Parts {
    /// By hash whether a word has the part, in bits: bytes would not fit a processor's cache.
    table: Box<[u64; 1 << (BITS - 6)]>,
    words: Vec<&'static str>,
    /// By part the words that have it, and where they have it.
    of_part: FxHashMap<u32, Vec<(usize, usize)>>,
}

impl Parts {
    /// The parts of words: of each two in a row, so that every second place of a text has one.
    pub(crate) fn of(words: Vec<&'static str>) -> Self {
        let usual: FxHashSet<_> = parts(USUAL).collect();
        let mut all = Self {
            table: Box::new([0; 1 << (BITS - 6)]),
            words: Vec::new(),
            of_part: FxHashMap::default(),
        };
        for (place, word) in words.iter().enumerate() {
            let of_word: Vec<_> = parts(word).collect();
            let frequency = |it| frequency(it, usual.contains(it));
            let pairs = of_word.windows(2).enumerate();
            match pairs.min_by_key(|it| it.1.iter().map(frequency).sum::<u32>()) {
                Some((at, pair)) => {
                    all.add(pair[0], (place, at));
                    all.add(pair[1], (place, at + 1));
                }
                // A word of one part: any byte may follow it.
                None => of_word.iter().for_each(|it| {
                    all.add(*it, (place, 0));
                    let next = |next| [it[1], it[2], it[3], next];
                    (0..=u8::MAX).for_each(|it| all.add(next(it), (place, 1)));
                }),
            }
        }
        Self { words, ..all }
    }

    fn add(&mut self, part: [u8; LENGTH], word: (usize, usize)) {
        let part = u32::from_le_bytes(part);
        let (place, bit) = hash(part);
        self.table[place] |= bit;
        self.of_part.entry(part).or_default().push(word);
    }

    /// Calls a function with the place of each word that is in a text, at least once.
    pub(crate) fn find(&self, text: &str, mut each: impl FnMut(usize)) {
        let is_in = |part: u32| {
            let (place, bit) = hash(part);
            self.table[place] & bit != 0
        };
        let text = text.as_bytes();
        if !has_any(is_in, text) {
            return;
        }
        let last = text.len().saturating_sub(LENGTH);
        for at in (0..last).step_by(2).chain([last]) {
            let part = text[at..].first_chunk().map(|it| u32::from_le_bytes(*it));
            let part = part.filter(|it| is_in(*it));
            let words = part.and_then(|it| self.of_part.get(&it));
            for (place, offset) in words.into_iter().flatten() {
                let begin = at.checked_sub(*offset).map(|it| &text[it..]);
                if begin.is_some_and(|it| it.starts_with(self.words[*place].as_bytes())) {
                    each(*place);
                }
            }
        }
    }
}

/// Whether the part at any second place of a text, or its last one, is looked for.
#[inline(always)]
fn has_any(has: impl Fn(u32) -> bool, text: &[u8]) -> bool {
    // Without an exit in the loop, places do not wait for each other.
    let (mut found, mut rest) = (false, text);
    while let Some(two) = rest.first_chunk() {
        let two = u64::from_le_bytes(*two);
        found |= has(two as u32) | has((two >> 16) as u32);
        rest = &rest[LENGTH..];
    }
    let ends = [
        rest.first_chunk(),
        rest.get(2..).and_then(|it| it.first_chunk()),
        text.last_chunk(),
    ];
    let mut ends = ends.into_iter().flatten();
    found || ends.any(|it| has(u32::from_le_bytes(*it)))
}

/// The parts of a text, at all places.
fn parts(text: &str) -> impl Iterator<Item = [u8; LENGTH]> {
    let windows = text.as_bytes().windows(LENGTH);
    windows.map(|it| [it[0], it[1], it[2], it[3]])
}

/// How frequent a part is: first whether usual lines have it, then by its letters.
fn frequency(part: &[u8; LENGTH], is_usual: bool) -> u32 {
    let of_letters = part.iter().map(|it| match it {
        // Numbers and addresses have any digits.
        b'0'..=b'9' => 3,
        b' ' | b'a' | b'c' | b'd' | b'e' | b'i' | b'l' | b'n' | b'o' | b'r' | b's' | b't' => 2,
        _ if it.is_ascii_lowercase() => 1,
        _ => 0,
    });
    of_letters.sum::<u32>() + if is_usual { 100 } else { 0 }
}

/// The place of a part's bit, by a multiplicative hash with the golden ratio's odd number.
const fn hash(part: u32) -> (usize, u64) {
    let hash = part.wrapping_mul(0x9e37_79b1) >> (32 - BITS);
    ((hash >> 6) as usize, 1 << (hash % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_anywhere_and_usual_lines_have_none() {
        let words = [
            "dump signal",
            "MIG ",
            ") ERROR",
            "count mismatch",
            "al dump",
        ];
        let parts = Parts::of(words.to_vec());
        let all = |text: &str| {
            let mut all = Vec::new();
            parts.find(text, |it| all.push(words[it]));
            all
        };
        for word in words {
            for text in [
                word.to_owned(),
                format!("a{word}b"),
                format!("count op {word}"),
                format!("count op {word}."),
            ] {
                assert!(all(&text).iter().all(|it| *it == word), "{text}");
                assert!(!all(&text).is_empty(), "{text}");
            }
        }
        assert_eq!(all("dump signal dump"), ["dump signal", "al dump"]);
        for text in ["", "MIG", "dum", "dump sIgnal", "count mismat", USUAL] {
            assert!(all(text).is_empty(), "{text}");
        }
    }
}
