//! A quick look whether a text may have any of many words.
//!
//! An automaton waits for memory at each byte, which takes several times as long. Of each word four
//! bytes are looked for, hashed, at every second place of the text.

/// Bytes of a part. No word is shorter.
const LENGTH: usize = 4;

/// A table has so many places, as a power of two.
const BITS: u32 = 17;

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

/// Parts of each word, in two tables by two hashes: few other parts are in both. Nearly half of all
/// lines have a part whose first hash is taken, few one whose second hash is, too.
#[derive(Debug)]
pub(crate) struct Parts([Box<Table>; 2]);

/// By hash whether a part has it: bytes, because a bit takes longer to look up.
type Table = [bool; 1 << BITS];

impl Parts {
    /// The parts of words: of each two in a row, so that every second place of a text has one.
    pub(crate) fn of(words: &[&str]) -> Self {
        let mut all = Self(FACTORS.map(|_| Box::new([false; 1 << BITS])));
        for word in words {
            let of_word: Vec<_> = parts(word).collect();
            let pairs = of_word.windows(2);
            match pairs.min_by_key(|it| it.iter().map(frequency).sum::<u32>()) {
                Some(pair) => pair.iter().for_each(|it| all.add(*it)),
                // A word of one part: any byte may follow it.
                None => of_word.iter().for_each(|it| {
                    all.add(*it);
                    (0..=u8::MAX).for_each(|next| all.add([it[1], it[2], it[3], next]));
                }),
            }
        }
        all
    }

    fn add(&mut self, part: [u8; LENGTH]) {
        let tables = self.0.iter_mut().zip(FACTORS);
        tables.for_each(|(table, factor)| table[hash(u32::from_le_bytes(part), factor)] = true);
    }

    /// Whether a text may have a word; `false`: it has none.
    pub(crate) fn may_be_in(&self, text: &str) -> bool {
        let [one, other] = &self.0;
        let is_in_one = |part: u32| one[hash(part, FACTORS[0])];
        let is_in_both = |part: u32| is_in_one(part) & other[hash(part, FACTORS[1])];
        has_any(is_in_one, text.as_bytes()) && has_any(is_in_both, text.as_bytes())
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
fn frequency(part: &[u8; LENGTH]) -> u32 {
    let is_usual = memchr::memmem::find(USUAL.as_bytes(), part).is_some();
    let of_letters = part.iter().map(|it| match it {
        // Numbers and addresses have any digits.
        b'0'..=b'9' => 3,
        b' ' | b'a' | b'c' | b'd' | b'e' | b'i' | b'l' | b'n' | b'o' | b'r' | b's' | b't' => 2,
        _ if it.is_ascii_lowercase() => 1,
        _ => 0,
    });
    of_letters.sum::<u32>() + if is_usual { 100 } else { 0 }
}

/// Odd numbers of multiplicative hashes; the first is the golden ratio's.
const FACTORS: [u32; 2] = [0x9e37_79b1, 0x85eb_ca6b];

const fn hash(part: u32, factor: u32) -> usize {
    (part.wrapping_mul(factor) >> (32 - BITS)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_anywhere_and_usual_lines_have_none() {
        let words = ["dump signal", "MIG ", ") ERROR", "count mismatch"];
        let parts = Parts::of(&words);
        for word in words {
            for text in [
                word.to_owned(),
                format!("a{word}b"),
                format!("count op {word}"),
            ] {
                assert!(parts.may_be_in(&text), "{text}");
            }
        }
        for text in ["", "MIG", "dum"] {
            assert!(!parts.may_be_in(text), "{text}");
        }
        assert!(!parts.may_be_in(USUAL));
    }
}
