//! Traces of PyTorch's profiler.

use program::Collective;
use workload::kineto::{Trace, read, workload};

/// A trace of one rank with an all-reduce at 110 µs that takes `time` µs.
fn text(rank: u32, time: f64) -> String {
    format!(
        r#"{{"schemaVersion": 1,
"distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": 2, "pg_count": 1,
  "pg_config": [{{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]}}], "nccl_version": "2.21.5"}},
"traceEvents": [
{{"ph": "X", "cat": "cpu_op", "name": "nccl:all_reduce", "ts": 1, "dur": 2, "args": {{"Collective name": "allreduce"}}}},
{{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#4", "ts": 1, "dur": 2}},
{{"ph": "X", "cat": "kernel", "name": "gemm", "ts": 100.0, "dur": 30}},
{{"ph": "X", "cat": "kernel", "name": "gemm", "ts": "120", "dur": "20.0"}},
{{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ts": 110, "dur": {time}, "args":
  {{"Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000, "Group size": 2, "dtype": "Float",
    "Process Group Name": "0", "Process Group Ranks": "[0, 1]"}}}},
{{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllGather_RING_LL", "ts": 500, "dur": 40, "args":
  {{"Collective name": "_allgather_base", "In msg nelems": 500, "Out msg nelems": 1000, "Group size": 2, "dtype": "BFloat16",
    "Process Group Name": "0", "Process Group Ranks": "[0, ..., 1]"}}}},
{{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_SendRecv", "ts": 700, "dur": 4, "args": {{}}}},
{{"ph": "X", "cat": "kernel", "name": "gemm", "ts": 800.0, "dur": 10}}
]}}"#
    )
}

fn trace(rank: u32, time: f64) -> Trace {
    read("trace.json", text(rank, time).as_bytes()).unwrap()
}

#[test]
fn kernels_become_calls() {
    let found = workload(&[trace(0, 50.0)], &["a".to_owned()]).unwrap();
    assert_eq!(found.ranks, Some(2));
    assert_eq!(found.groups.len(), 1);
    assert_eq!(found.groups[0].name, "default_pg");
    assert_eq!(found.groups[0].members.to_string(), "{0-1}");
    let [reduce, gather] = &found.calls[..] else {
        panic!("{} calls", found.calls.len())
    };
    // 10 µs of computation before, 30 µs beside, 10 µs at the end.
    assert_eq!((reduce.compute_us, reduce.overlap_us), (10.0, 30.0));
    assert_eq!((reduce.start_us, reduce.bytes), (Some(10.0), 4000));
    assert_eq!(
        (gather.collective, gather.bytes),
        (Collective::AllGather, 2000)
    );
    assert_eq!(found.compute_after_us, 10.0);
    let times: Vec<f64> = found.measured.iter().map(|it| it.time_us).collect();
    assert_eq!(times, [50.0, 40.0]);
    assert!(
        found
            .notes
            .iter()
            .any(|it| it.starts_with("1 calls are left out"))
    );
}

#[test]
fn the_last_rank_does_not_wait() {
    let names = ["a", "b"].map(str::to_owned);
    let found = workload(&[trace(0, 50.0), trace(1, 20.0)], &names).unwrap();
    let waiting: Vec<_> = found.measured.iter().map(|it| it.waiting_us).collect();
    assert_eq!(waiting, [Some(30.0), Some(0.0)]);
    // The call begins 30 µs later; until then computation hides nothing of it.
    let reduce = &found.calls[0];
    assert_eq!(reduce.start_us, Some(40.0));
    assert_eq!((reduce.compute_us, reduce.overlap_us), (40.0, 0.0));
}

/// A trace of a processor: two calls of which the second is queued behind the first, one without an
/// end, operators within others, and one that waits.
const HOST: &str = r#"{"distributedInfo": {"backend": "topo", "rank": 0, "world_size": 4,
  "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 4, "ranks": [0, 1, 2, 3]}]},
"traceEvents": [
{"ph": "X", "cat": "cpu_op", "name": "aten::linear", "tid": 7, "ts": 100, "dur": 100},
{"ph": "X", "cat": "cpu_op", "name": "aten::addmm", "tid": 7, "ts": 110, "dur": 40},
{"ph": "X", "cat": "user_annotation", "name": "topo:all_reduce", "tid": 7, "ts": 200, "dur": 50, "args":
  {"Input Dims": [[100, 2], [8]], "Input type": ["c10::BFloat16", "float"]}},
{"ph": "X", "cat": "user_annotation", "name": "topo:all_gather_into_tensor", "tid": 7, "ts": 210, "dur": 60, "args":
  {"Input Dims": [[25]], "Input type": ["float"]}},
{"ph": "X", "cat": "cpu_op", "name": "aten::mul", "tid": 7, "ts": 220, "dur": 20},
{"ph": "X", "cat": "cpu_op", "name": "_c10d_functional::wait_tensor", "tid": 7, "ts": 240, "dur": 30},
{"ph": "X", "cat": "user_annotation", "name": "topo:broadcast", "tid": 7, "ts": 290, "dur": 10, "args":
  {"Input Dims": [[25]], "Input type": ["float"], "finished": false}},
{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#4", "ts": 100, "dur": 200}
]}"#;

#[test]
fn calls_of_processors() {
    let found = read("t", HOST.as_bytes()).and_then(|it| workload(&[it], &["t".to_owned()]));
    let found = found.unwrap();
    let [reduce, gather] = &found.calls[..] else {
        panic!("{} calls", found.calls.len())
    };
    assert_eq!(
        (reduce.collective, reduce.bytes),
        (Collective::AllReduce, 432)
    );
    assert_eq!(
        (gather.collective, gather.bytes),
        (Collective::AllGather, 400)
    );
    // Of operators within others the inner ones count.
    assert_eq!((reduce.compute_us, reduce.overlap_us), (40.0, 20.0));
    assert_eq!((gather.compute_us, gather.overlap_us), (0.0, 0.0));
    let times: Vec<f64> = found.measured.iter().map(|it| it.time_us).collect();
    assert_eq!(times, [50.0, 20.0]);
    assert!(
        found
            .notes
            .iter()
            .any(|it| it.starts_with("1 calls are left out"))
    );
    let two = HOST.replace("[{\"pg_name\"", "[{\"pg_name\": \"1\"}, {\"pg_name\"");
    let error = read("t", two.as_bytes()).unwrap_err().to_string();
    assert!(error.starts_with("t:1: 2 groups of processes"), "{error}");
}

#[test]
fn what_is_wrong_is_said() {
    let error = |text: &str| {
        let read = read("t", text.as_bytes()).and_then(|it| workload(&[it], &["t".to_owned()]));
        read.unwrap_err().to_string()
    };
    for (text, expected) in [
        ("{\"traceEvents\": [\n{\"ts\": [1]}]}", "t:2: "),
        (
            "{\"traceEvents\": []}",
            "t:1: no kernel of NCCL has a collective's name",
        ),
        (
            "[]",
            "t:1: invalid type: sequence, expected a trace with traceEvents",
        ),
        ("{\"traceEvents\": [", "t:1: EOF while parsing"),
    ] {
        let found = error(text);
        assert!(found.starts_with(expected), "{text}: {found}");
    }
    let names = ["a", "b"].map(str::to_owned);
    let twice = workload(&[trace(0, 5.0), trace(0, 5.0)], &names).unwrap_err();
    assert_eq!(twice.to_string(), "b:1: another trace is of rank 0, too");
}
