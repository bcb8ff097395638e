//! Reads a log of 1 GB that is made while it is read, and prints how fast that was:
//!
//!     cargo run --release -p records --example throughput

use std::io::{BufReader, Read, Result};
use std::time::Instant;

use records::nccl_log::Collector;

/// Bytes of the log.
const BYTES: u64 = 1_000_000_000;

/// Ranks that write by turns.
const RANKS: usize = 64;

/// What each rank logs, after its head.
const LINES: [&str; 12] = [
    "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB ib0:10.0.0.1<0>",
    "Channel 03/0 : 5[5] -> 6[6] [send] via NET/IB/0(3)/GDRDMA",
    "Channel 04/0 : 6[6] -> 7[7] via P2P/CUMEM/read",
    "Ring 03 : 4 -> 5 -> 6",
    "Trees [0] 6/-1/-1->5->4 [1] 6/-1/-1->5->4 [2] 6/-1/-1->5->4 [3] 6/-1/-1->5->4",
    "AllReduce: opCount 2a sendbuff 0x720000000 recvbuff 0x920000000 count 2097152 datatype 7 op 0 \
     root 0 comm 0x55d5f5ac09e0 [nranks=64] stream 0x55d5f4d50b60",
    "AllReduce: 8388608 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}",
    "proxyProgressAsync opId=0x7f4027ba9dd0 op.type=3 op.reqBuff=0x7f3fd8004970 op.respSize=88 done",
    "Mem Realloc old size 0, new size 8 pointer 0x7f3fdc000d00",
    "Connected all rings, use ring PXN 0 GDR 1",
    "ncclCommInitRankConfig comm 0x55d5f5ac09e0 rank 5 nranks 64 cudaDev 5 nvmlDev 5 busId 65000 \
     commId 0xde843772bfa53d08 - Init COMPLETE",
    "P2P Chunksize set to 524288",
];

/// The log.
struct Made {
    text: Vec<u8>,
    at: usize,
    left: u64,
}

impl Read for Made {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let rest = &self.text[self.at..];
        let count = rest.len().min(buffer.len()).min(self.left as usize);
        buffer[..count].copy_from_slice(&rest[..count]);
        self.at = (self.at + count) % self.text.len();
        self.left -= count as u64;
        Ok(count)
    }
}

fn main() -> Result<()> {
    let mut text = String::new();
    for line in LINES {
        for rank in 0..RANKS {
            let (host, gpu) = (rank / 8, rank % 8);
            text.push_str(&format!(
                "[1,{rank}]<stdout>:node{host:03}:{}:{} [{gpu}] NCCL INFO {line}\n",
                10_000 + rank,
                20_000 + rank
            ));
        }
    }
    let made = Made {
        text: text.into_bytes(),
        at: 0,
        left: BYTES,
    };
    let begun = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut collector = Collector::with_helpers(threads - 1);
    collector.read("made", BufReader::with_capacity(256 << 10, made), |_| {})?;
    let log = collector.finish();
    let seconds = begun.elapsed().as_secs_f64();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM"));
    println!(
        "{} lines, {} unknown, {:.0} MB/s; {}",
        log.counts.lines,
        log.counts.unknown,
        log.counts.bytes as f64 / 1e6 / seconds,
        peak.unwrap_or("peak memory unknown")
    );
    Ok(())
}
