//! Execution traces of Chakra and PyTorch: protobuf or JSON by the first byte. Every accepted trace
//! becomes a workload whose waits and dependencies name earlier calls.

use workload::chakra::{is_binary, read_json, read_protobuf, workload};

use crate::input::{Depth, checked};

/// Ranks of the job.
const RANKS: u32 = 8;

const RECORDED: &str = r#"{"schema": "1.1.0-chakra.0.0.4", "nodes": [
{"id": 1, "name": "process_group:init", "inputs": {"values": ["[{\"pg_name\": \"0\", \"pg_desc\": \"tp\", \"ranks\": [0, 1], \"group_size\": 2}]"]}},
{"id": 3, "name": "record_param_comms", "inputs": {"values": [[[5, 6, 0, 100, 2, "cuda:0"]], 33, ["0", "tp"], 0, "_allgather_base", [], [], 0, 1, 2],
 "types": ["GenericList[Tensor(c10::BFloat16)]"]}, "attrs": [{"name": "dtype", "type": "string", "value": "Half"}]},
{"id": 4, "name": "gemm", "cat": "kernel", "inclusive_dur": 12.5},
{"id": 5, "name": "record_param_comms", "inputs": {"values": [33, ["", ""], 1, "wait", [], []]}}]}"#;

const JSONIZED: &str = r#"{"attr": [{"name": "schema", "stringVal": "1.1"}]}
{"id": "1", "type": "COMP_NODE", "durationMicros": "100"}
{"id": "2", "type": "COMM_COLL_NODE", "dataDeps": ["1"], "attr": [{"name": "comm_type", "int64Val": "2"},
 {"name": "comm_size", "int64Val": "1048576"}, {"name": "pg_name", "stringVal": "5"}]}
{"id": "3", "type": "COMM_SEND_NODE", "ctrlDeps": ["2"], "attr": [{"name": "comm_size", "int64Val": "8"},
 {"name": "comm_src", "int32Val": 1}, {"name": "comm_dst", "int32Val": 3}]}
{"id": "4", "type": "COMP_NODE", "dataDeps": ["2", "3"], "durationMicros": "9"}"#;

/// Metadata, a node that computes, an all-reduce after it, and a node that waits.
const BINARY: &[u8] = b"\x02\x0a\x00\x08\x08\x01\x18\x04\x38\x64\x2a\x00\
    \x27\x08\x02\x18\x07\x2a\x01\x01\x52\x0d\x0a\x09comm_type\x48\x00\x52\x0f\x0a\x09comm_size\x48\x80\x80\x40\
    \x09\x08\x03\x18\x04\x2a\x01\x02\x38\x05";

/// One of each form.
pub fn seeds() -> Vec<Vec<u8>> {
    [RECORDED.as_bytes(), JSONIZED.as_bytes(), BINARY]
        .map(<[u8]>::to_vec)
        .to_vec()
}

/// Reads a trace and makes its workload.
///
/// # Panics
/// A wait or a dependency names a call that is not earlier.
pub fn run(bytes: &[u8]) -> Depth {
    let read = match is_binary(bytes) {
        true => read_protobuf("fuzz", bytes),
        false => read_json("fuzz", bytes),
    };
    let Some(trace) = checked(read) else {
        return Depth::Outside;
    };
    let Some(found) = checked(workload(&[trace], &["fuzz".to_owned()], RANKS)) else {
        return Depth::Inside;
    };
    for (at, call) in found.calls.iter().enumerate() {
        let waits = call.waits.iter().flat_map(|it| &it.after);
        assert!(
            call.after.iter().chain(waits).all(|it| *it < at),
            "call {at} is not later"
        );
    }
    let waits = found.waits_after.iter().flat_map(|it| &it.after);
    assert!(
        waits.into_iter().all(|it| *it < found.calls.len()),
        "there is no such call"
    );
    Depth::Accepted
}
