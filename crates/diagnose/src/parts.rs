//! A quick look whether a text may have any of many words.
//!
//! An automaton waits for memory at each byte, which takes several times as long. Of each word four
//! bytes are looked for, hashed, at all places of the text.

/// Bytes of a part. No word is shorter.
const LENGTH: usize = 4;

/// The table has so many bits, as a power of two. Of a hundred words' parts, a line of a hundred
/// bytes has one by chance about once in a dozen.
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
    transport 2 Connection to proxy localRank 0 -> connection 0x7f transport/net.cc:656 Cuda Alloc Size 8 pointer";

/// A part of each word, hashed.
#[derive(Debug)]
pub(crate) struct Parts(Box<[u64; 1 << (BITS - 6)]>);

impl Parts {
    /// The parts of words.
    pub(crate) fn of(words: &[&str]) -> Self {
        let mut table = Box::new([0; 1 << (BITS - 6)]);
        for word in words {
            let parts = parts(word);
            if let Some(part) = parts.min_by_key(frequency) {
                let at = hash(part);
                table[at >> 6] |= 1 << (at & 63);
            }
        }
        Self(table)
    }

    /// Whether a text may have a word; `false`: it has none.
    pub(crate) fn may_be_in(&self, text: &str) -> bool {
        let parts = parts(text);
        // Without an exit in the loop, places do not wait for each other.
        let found = parts.fold(0, |found, part| {
            let at = hash(part);
            found | self.0[at >> 6] >> (at & 63)
        });
        found & 1 == 1
    }
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
        b' ' | b'a' | b'c' | b'd' | b'e' | b'i' | b'l' | b'n' | b'o' | b'r' | b's' | b't' => 2,
        _ if it.is_ascii_lowercase() || it.is_ascii_digit() => 1,
        _ => 0,
    });
    of_letters.sum::<u32>() + if is_usual { 100 } else { 0 }
}

fn hash(part: [u8; LENGTH]) -> usize {
    // The odd number is the golden ratio's, as in other multiplicative hashes.
    (u32::from_le_bytes(part).wrapping_mul(0x9e37_79b1) >> (32 - BITS)) as usize
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
