//! Any bytes are read to their end, and every row that is kept agrees with itself.

use proptest::prelude::*;
use records::results::{Collector, Results, json};

/// Pieces of lines that programs write.
const PIECES: [&str; 22] = [
    "# nThread 1 nGpus 8 minBytes 8 maxBytes 64 step: 2(factor)",
    "#  Rank  0 Group  0 Pid  27 on  node1 device  0 [0000:1b:00] NVIDIA H100",
    "#   Rank  1 Pid  27 on  node1 device  1 [0x1c] V100",
    "#                                                      out-of-place                       in-place",
    "#                                                      in-place",
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong",
    "#       size         count    type     time   algbw   busbw  error     time   algbw   busbw  error",
    "#  bytes  N  type  op  time  algbw  busbw  res",
    "     1048576        262144     float     sum      -1    52.40   20.01   35.02      0",
    "    52.40   20.01   35.02      0",
    "     1048576        262144     float",
    "[1,0]<stdout>:     8  2  half  none  3  9.00  0.00  0.00  N/A  9.00  0.00  0.00  1*",
    "n1:12:34 [0] NCCL INFO Channel 00/02 :    0   1",
    "# Out of bounds values : 0 OK",
    "# Avg bus bandwidth    : 28.2632",
    "# Collective test starting: all_reduce_perf",
    "NCCL_ALGO=Ring ./build/reduce_scatter_perf -b 8",
    "NCCL version 2.27.7+cuda12.9",
    "# nccl-tests version 2.19.6 nccl-headers=23007 nccl-library=23007",
    "rccl-tests: Version 1",
    "-1e+99 1e400 nan",
    "18446744073709551615 1 float -1 1 1 1 1",
];

fn check(results: &Results) -> Result<(), TestCaseError> {
    for table in &results.tables {
        for row in &table.rows {
            prop_assert!(row.measured().is_some());
            for it in row.placements() {
                prop_assert!(it.time_us > 0.0 && it.time_us.is_finite());
                let expected = row.bytes as f64 / it.time_us / 1000.0;
                prop_assert!((it.algorithm_gbps - expected).abs() <= 0.03 * expected + 0.01);
            }
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_bytes_end_in_order(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let text = String::from_utf8_lossy(&bytes);
        let mut collector = Collector::default();
        text.lines().for_each(|line| collector.line(line));
        check(&collector.finish())?;
        let _ = json::read("x", &text);
    }

    #[test]
    fn any_pieces_end_in_order(
        pieces in prop::collection::vec((0..PIECES.len(), 0..120_usize, any::<bool>()), 0..60),
    ) {
        let mut text = String::new();
        for (piece, length, ends) in pieces {
            let piece = PIECES[piece];
            text.push_str(match length {
                0..60 => &piece[..length.min(piece.len())],
                _ => piece,
            });
            if ends {
                text.push('\n');
            }
        }
        let mut collector = Collector::default();
        collector.begin("a");
        text.lines().for_each(|line| collector.line(line));
        check(&collector.finish())?;
    }
}
