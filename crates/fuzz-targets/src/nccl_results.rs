//! Measurements of nccl-tests, rccl-tests, the OSU micro-benchmarks, `topo run` and NCCL's
//! Inspector. Any bytes are read to their end, as a table and as JSON, and every row that is kept
//! agrees with itself.

use records::results::{Collector, Table, json};

use crate::input::Depth;

/// Tables of several years, cut rows, and the lines around them.
const LINES: &str = "\
NCCL version 2.27.7+cuda12.9
# nccl-tests version 2.19.6 nccl-headers=23007 nccl-library=23007
+ NCCL_ALGO=Ring ./build/all_reduce_perf -b 8
# nThread 1 nGpus 2 minBytes 1048576 maxBytes 2097152 step: 2(factor) warmup iters: 1 iters: 20
#  Rank  0 Group  0 Pid  65704 on       mew0 device  0 [0000:17:00] NVIDIA A100-PCIE-40GB
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
     1048576        262144     float     sum      -1    52.40   20.01   20.01      0    52.40   20.01   20.01    N/A
[1,0]<stdout>:     2097152        524288     float     sum      -1n1:65:65 [1] NCCL INFO AllReduce: opCount 0
    84.00   24.97   24.97      0    84.00   24.97   24.97      1*
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 22.49
#      bytes             N    type      op     time  algbw  busbw      res     time  algbw  busbw      res
     1000000        250000   float     sum    0.040  25.00  43.75    0e+00    0.050  20.00  35.00    0e+00
#  type      size    count  ranks   algbw   busbw     time  #wrong  host timestamp
  float   1048576   262144      8   20.01   35.02    52.40       0  node1 2026-01-02 10:11:12
$ mpirun -np 8 ./osu_allgather -d cuda -f
# OSU NCCL-CUDA Allgather Latency Test v7.4
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
1048576                52.40             50.10             60.20         100
# Size      Bandwidth (MB/s)
1048576             23000.00
";

/// JSON of nccl-tests.
const NCCL_TESTS: &str = r#"{"version":3,"args":["./all_gather_perf"],"env":["NCCL_ALGO=Ring"],
"nccl_version":23007,"config":{"devices":[{"rank":0,"group":0,"hostname":"a","device":0,
"device_hex":"0000:1b:00","device_info":"H100"}]},"results":[{"size":8,"count":1,"type":"float",
"redop":"none","root":"    -1","out_of_place":{"time":9.5,"alg_bw":0.0,"bus_bw":0.0,"nwrong":"nan"},
"in_place":null}],"out_of_bounds":{"count":0},"average_bus_bandwidth":{"bandwidth":1.5}}"#;

/// JSON of `topo run`.
const TOPO_RUN: &str = r#"{"format":"topo-run","collective":"all-reduce","ranks":4,"type":"f32",
"op":"sum","root":null,"rows":[{"bytes":1024,"count":256,"out_of_place":{"algorithm":"ring",
"protocol":"LL","channels":2,"time_us":10.0,"algorithm_bandwidth_gbps":0.1,
"bus_bandwidth_gbps":0.15,"wrong":0},"in_place":null,"predicted_us":9.0}]}"#;

/// A call that Inspector timed.
const INSPECTOR: &str = r#"{"header":{"id":"0xa","rank":1,"n_ranks":8,"nnodes":1},"metadata":{
"inspector_output_format_version":"v4.0","dump_timestamp_us":1748030377748202,"hostname":"n0"},
"coll_perf":{"coll":"ReduceScatter","coll_sn":7,"coll_msg_size_bytes":2147483648,
"coll_exec_time_us":41057,"coll_timing_source":"kernel_gpu","coll_algobw_gbs":418.439467}}"#;

/// The lines, whole and each alone, and JSON.
pub fn seeds() -> Vec<Vec<u8>> {
    let all = LINES.lines().chain([LINES, NCCL_TESTS, TOPO_RUN]);
    let calls = INSPECTOR.replace('\n', "");
    let all = all.map(|text| text.as_bytes().to_vec());
    all.chain([calls.clone().into(), calls.replace("{\"h", "{\n\"h").into()])
        .collect()
}

/// Reads measurements.
///
/// # Panics
/// A row that is kept contradicts itself.
pub fn run(bytes: &[u8]) -> Depth {
    let text = String::from_utf8_lossy(bytes);
    let mut collector = Collector::default();
    collector.begin("fuzz");
    text.lines().for_each(|line| collector.line(line));
    let calls: Vec<Table> = collector.take_timed().tables().collect();
    let results = collector.finish();
    for row in results.tables.iter().flat_map(|it| &it.rows) {
        for it in row.placements() {
            let expected = row.bytes as f64 / it.time_us / 1000.0;
            let error = (it.algorithm_gbps - expected).abs();
            assert!(error <= 0.03 * expected + 0.01, "{row:?}");
        }
    }
    let read = json::read("fuzz", &text);
    if let Ok(table) = &read {
        check(table);
    }
    results.tables.iter().chain(&calls).for_each(check);
    let has_rows = |table: &Table| !table.rows.is_empty();
    match (results.tables.iter().chain(&calls).any(has_rows), read) {
        (true, _) => Depth::Accepted,
        (false, Ok(table)) if has_rows(&table) => Depth::Accepted,
        (false, Err(json::JsonError::Syntax { .. })) if results.tables.is_empty() => Depth::Outside,
        _ => Depth::Inside,
    }
}

fn check(table: &Table) {
    for row in &table.rows {
        assert!(row.measured().is_some(), "{row:?}");
        for it in row.placements() {
            assert!(it.time_us > 0.0 && it.time_us.is_finite(), "{row:?}");
        }
    }
    if let (Some(ranks), Some(hosts)) = (table.rank_count(), table.host_count()) {
        assert!(ranks > 0 || table.devices.is_empty(), "{hosts} hosts");
    }
}
