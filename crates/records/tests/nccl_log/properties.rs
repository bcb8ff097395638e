//! Any bytes are read to their end, and every line is counted.

use proptest::prelude::*;
use records::nccl_log::{Collector, Log};

fn read(bytes: &[u8]) -> Log {
    let mut collector = Collector::default();
    collector.read("log", bytes, |_| {}).unwrap();
    collector.finish()
}

/// Pieces of lines that NCCL writes.
const PIECES: [&str; 34] = [
    "n1:12:34 [0] NCCL INFO ",
    "n2:5:6 [1] NCCL INFO ",
    "n1:12:34 [0] transport/net.cc:12 NCCL WARN ",
    "Channel 00/02 :    0   1",
    "Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0(3)/GDRDMA",
    "Channel 01 : 1[b1000] -> 0[5e000] via P2P/indirect/2[2]",
    "Ring 00 : 1 -> 0 -> 1",
    "Trees [0] 1/-1/-1->0->-1 [1] -1->0->1/-1/-1",
    "Tree 0 : -1 -> 0 -> 1/-1/-1",
    "NVLS Head  0:  0  8",
    "NVLS Trees : 23/-1/-1->14->6 23/6/-1->14->-1",
    "comm 0x7f rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x12 - Init START",
    "comm 0x7f rank 1 nranks 2 cudaDev 1 busId 1c000 - Init COMPLETE",
    "comm 0x7f rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0",
    "comm 0x7f rank 0 nranks 2 cudaDev 0 busId 1b000 - Abort COMPLETE",
    "Init timings - f: rank 0 nranks 2 total 0.37 (kernels 0.28, rest 0.00)",
    "2 coll channels, 0 nvls channels, 2 p2p channels, 1 p2p channels per peer",
    "  Algorithm   |  Tree |  Ring |",
    "   AllReduce |  1.0/ 2.0 |  -1.0/ -1.0 | 3.0/4 |",
    "AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}",
    "=== System : maxBw 24.0 totalBw 360.0 ===",
    "+ PCI[24.0] - GPU/4000 (0)",
    "==========",
    "Pattern 4, crossNic 0, nChannels 1, bw 24.0/24.0, type NVL/PIX, sameChannels 1",
    " 0 : NET/0 GPU/0 GPU/1 NET/0",
    "NCCL_IB_HCA set by environment to mlx5_0",
    "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB ib0:10.0.0.1<0>",
    "GPU Direct RDMA Disabled for GPU 3000 / HCA 1 (distance 7 > 4)",
    "NCCL version 2.27.7+cuda12.9",
    "init.cc:12 -> 6",
    "Connected all rings",
    "\n",
    "\u{1b}[31m",
    "\r",
];

proptest! {
    #[test]
    fn any_bytes_end_in_order(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        read(&bytes);
    }

    #[test]
    fn any_pieces_end_in_order(
        pieces in prop::collection::vec((0..PIECES.len(), 0..80_usize), 0..200),
    ) {
        let mut text = String::new();
        for (piece, length) in pieces {
            // Pieces are ASCII; some lose their end.
            let piece = PIECES[piece];
            text.push_str(match length {
                0..40 => &piece[..length.min(piece.len())],
                _ => piece,
            });
        }
        let log = read(text.as_bytes());
        let lines = text.lines().count() as u64;
        prop_assert_eq!(log.counts.lines, lines);
        let counts = log.counts;
        let all = counts.recognized + counts.ignored + counts.unknown + counts.warnings
            + counts.others + counts.damaged + counts.broken;
        prop_assert!(all >= lines);
    }
}
