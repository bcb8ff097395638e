//! NCCL's log. Any bytes are read to their end, every line is counted, and what is joined fits.

use records::nccl_log::Collector;

use crate::input::Depth;

/// Lines of several versions, with launchers' prefixes.
const LINES: &str = "\
NCCL version 2.27.7+cuda12.9
[1,0]<stdout>:n1:12:34 [0] NCCL INFO NCCL_IB_HCA set by environment to mlx5_0
[1,0]<stdout>:n1:12:34 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB ib0:10.0.0.1<0>
n1:12:34 [0] NCCL INFO ncclCommInitRank comm 0x7f rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x12 - Init START
n1:12:34 [0] NCCL INFO === System : maxBw 24.0 totalBw 360.0 ===
n1:12:34 [0] NCCL INFO CPU/0-0 (1/1/2)
n1:12:34 [0] NCCL INFO + PCI[24.0] - GPU/0-1b000 (0)
n1:12:34 [0] NCCL INFO ==========================================
n1:12:34 [0] NCCL INFO Pattern 4, crossNic 0, nChannels 1, bw 24.0/24.0, type NVL/PIX, sameChannels 1
n1:12:34 [0] NCCL INFO  0 : NET/0 GPU/0-1b000 GPU/0-1c000 NET/0
n1:12:34 [0] NCCL INFO comm 0x7f rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0
n1:12:34 [0] NCCL INFO Channel 00/02 : 0 1
n1:12:34 [0] NCCL INFO Ring 00 : 1 -> 0 -> 1
n1:12:34 [0] NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] -1->0->1/-1/-1
n1:12:34 [0] NCCL INFO NVLS Head  0:  0  8
n1:12:34 [0] NCCL INFO NVLS Trees : 23/-1/-1->14->6 23/6/-1->14->-1
n1:12:34 [0] NCCL INFO   Algorithm   |   Tree   |   Ring   |
n1:12:34 [0] NCCL INFO   AllReduce |  1.0/ 2.0 |  -1.0/ -1.0 | 3.0/ 4.0 |
n1:12:34 [0] NCCL INFO 2 coll channels, 0 nvls channels, 2 p2p channels, 1 p2p channels per peer
n1:12:34 [0] NCCL INFO comm 0x7f rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0x12 - Init COMPLETE
n1:12:34 [0] NCCL INFO Init timings - f: rank 0 nranks 2 total 0.37 (kernels 0.28, rest 0.00)
n1:12:12 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/IB/0(3)/GDRDMA/flush=None
n1:12:12 [0] NCCL INFO AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}
[2026-05-05 06:16:47] n1:12:12 [0] transport/net.cc:12 (f) NCCL WARN Cuda failure 2 'out of memory'
n1:12:12 [0] NCCL INFO init.cc:12 -> 6
";

/// The lines, whole and each alone.
pub fn seeds() -> Vec<Vec<u8>> {
    let alone = LINES.lines().map(|line| line.as_bytes().to_vec());
    alone.chain([LINES.as_bytes().to_vec()]).collect()
}

/// Reads a log.
///
/// # Panics
/// A line is not counted, or a communicator contradicts itself.
pub fn run(bytes: &[u8]) -> Depth {
    let mut collector = Collector::default();
    if collector.read("log", bytes, |_| {}).is_err() {
        return Depth::Outside;
    }
    let log = collector.finish();
    let counts = log.counts;
    let newlines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
    let last = u64::from(bytes.last().is_some_and(|byte| *byte != b'\n'));
    assert_eq!(counts.lines, newlines + last, "lines");
    assert_eq!(counts.bytes, bytes.len() as u64, "bytes");
    let messages = counts.recognized
        + counts.ignored
        + counts.unknown
        + counts.warnings
        + counts.others
        + counts.damaged
        + counts.broken;
    assert!(messages >= counts.lines, "a line is not counted");
    for communicator in &log.communicators {
        for channel in &communicator.decisions.cut_rings {
            let ring = communicator
                .decisions
                .rings
                .get(channel)
                .map_or(0, Vec::len);
            assert!(ring < communicator.ranks as usize, "a whole ring is cut");
        }
    }
    match (counts.channels, counts.recognized) {
        (0, 0) => Depth::Outside,
        (0, _) => Depth::Inside,
        _ => Depth::Accepted,
    }
}
