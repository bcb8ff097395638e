//! Execution traces of Chakra and PyTorch.

use program::Collective;
use workload::chakra::{self, Trace, read_json, read_protobuf};
use workload::{Members, Workload};

/// Bytes of a protobuf message, field by field.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(mut self, mut value: u64) -> Self {
        while value > 0x7f {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
        self
    }

    fn number(self, field: u64, value: u64) -> Self {
        self.varint(field << 3).varint(value)
    }

    fn bytes(self, field: u64, value: &[u8]) -> Self {
        let mut message = self.varint(field << 3 | 2).varint(value.len() as u64);
        message.0.extend_from_slice(value);
        message
    }

    /// An attribute with a whole number (`int64_val`).
    fn attribute(self, name: &str, value: u64) -> Self {
        let inner = Self::default().bytes(1, name.as_bytes()).number(9, value);
        self.bytes(10, &inner.0)
    }

    fn text(self, name: &str, value: &str) -> Self {
        let inner = Self::default().bytes(1, name.as_bytes());
        self.bytes(10, &inner.bytes(29, value.as_bytes()).0)
    }
}

/// A node of a type, that depends on others.
fn node(id: u64, kind: u64, after: &[u64]) -> Message {
    let message = Message::default()
        .number(1, id)
        .bytes(2, b"x")
        .number(3, kind);
    after
        .iter()
        .fold(message, |message, id| message.number(5, *id))
}

const COMPUTE: u64 = 4;
const SEND: u64 = 5;
const COLLECTIVE: u64 = 7;

/// A file of these messages, after one of metadata.
fn file(messages: &[Message]) -> Vec<u8> {
    let schema = Message::default()
        .bytes(1, b"schema")
        .bytes(29, b"1.1.1-chakra.0.0.4");
    let all = std::iter::once(Message::default().bytes(2, &schema.0));
    let mut bytes = Vec::new();
    for message in all.chain(messages.iter().map(|it| Message(it.0.clone()))) {
        bytes.extend(Message::default().varint(message.0.len() as u64).0);
        bytes.extend(message.0);
    }
    bytes
}

fn of_bytes(bytes: &[u8], ranks: u32) -> Workload {
    let trace = read_protobuf("a.et", bytes).unwrap();
    chakra::workload(&[trace], &["a.et".to_owned()], ranks).unwrap()
}

/// Two layers whose gradients are reduced while the next is computed; the last waits for both.
fn gradients() -> Vec<Message> {
    vec![
        node(1, COMPUTE, &[]).number(7, 100),
        node(2, COLLECTIVE, &[1])
            .attribute("comm_type", 0)
            .attribute("comm_size", 1 << 20)
            .text("pg_name", "5"),
        node(3, COMPUTE, &[1]).number(7, 200),
        node(4, COLLECTIVE, &[3])
            .attribute("comm_type", 0)
            .attribute("comm_size", 2 << 20)
            .text("pg_name", "5"),
        node(5, COMPUTE, &[2, 4]).number(7, 50),
        node(6, COMPUTE, &[5]).number(7, 25),
    ]
}

#[test]
fn computation_waits_for_what_it_depends_on() {
    let found = of_bytes(&file(&gradients()), 4);
    let [first, second] = &found.calls[..] else {
        panic!("{} calls", found.calls.len())
    };
    assert_eq!((first.compute_us, first.bytes), (100.0, 1 << 20));
    assert_eq!((second.compute_us, second.bytes), (200.0, 2 << 20));
    assert!(!first.blocks && first.waits.is_empty() && second.waits.is_empty());
    assert!(second.after.is_empty());
    // Calls of a group follow each other, so that the latest is enough.
    assert_eq!(found.waits_after.len(), 1);
    assert_eq!(found.waits_after[0].after, [1]);
    assert_eq!(found.waits_after[0].compute_us, 0.0);
    assert_eq!(found.compute_after_us, 75.0);
    assert_eq!(found.groups[0].name, "group 5");
    assert_eq!(found.groups[0].members, Members::All);
    assert!(found.measured.is_empty());
}

#[test]
fn files_may_list_nodes_in_any_order() {
    let mut reversed = gradients();
    reversed.reverse();
    let (one, other) = (
        of_bytes(&file(&gradients()), 4),
        of_bytes(&file(&reversed), 4),
    );
    assert_eq!(one, other);
}

#[test]
fn computation_that_need_not_wait_comes_first() {
    let found = of_bytes(
        &file(&[
            node(1, COLLECTIVE, &[])
                .attribute("comm_type", 6)
                .attribute("comm_size", 4096),
            node(2, COMPUTE, &[1]).number(7, 10),
            node(3, COMPUTE, &[]).number(7, 20),
        ]),
        2,
    );
    assert_eq!(found.calls[0].collective, Collective::AllToAll);
    assert_eq!(found.waits_after[0].compute_us, 20.0);
    assert_eq!(found.compute_after_us, 10.0);
}

/// ASTRA-sim and Chakra's converter give what a rank sends: of an all-gather one piece.
#[test]
fn bytes_are_of_the_whole_message() {
    for (kind, collective, bytes) in [
        (2, Collective::AllGather, 8 * 4096),
        (7, Collective::ReduceScatter, 4096),
        (5, Collective::Broadcast, 4096),
    ] {
        let node = node(1, COLLECTIVE, &[]);
        let node = node
            .attribute("comm_type", kind)
            .attribute("comm_size", 4096);
        let found = of_bytes(&file(&[node]), 8);
        assert_eq!(
            (found.calls[0].collective, found.calls[0].bytes),
            (collective, bytes)
        );
    }
}

#[test]
fn messages_are_of_two_ranks() {
    let send = node(1, SEND, &[]).attribute("comm_size", 64);
    let found = of_bytes(
        &file(&[send.attribute("comm_src", 3).attribute("comm_dst", 1)]),
        4,
    );
    assert_eq!(found.groups[0].members.to_string(), "{1 3}");
    assert_eq!(found.calls[0].collective, Collective::SendRecv);
}

/// Operators on the host take time only where no node is of a kernel.
#[test]
fn kernels_count_before_operators() {
    let host = |id: u64| {
        let flag = Message::default().bytes(1, b"is_cpu_op").number(27, 1);
        node(id, COMPUTE, &[]).number(7, 1000).bytes(10, &flag.0)
    };
    let call = || {
        node(9, COLLECTIVE, &[1])
            .attribute("comm_type", 0)
            .attribute("comm_size", 8)
    };
    let alone = of_bytes(&file(&[host(1), call()]), 2);
    assert_eq!(alone.calls[0].compute_us, 1000.0);
    let kernel = node(2, COMPUTE, &[]).number(7, 30);
    let beside = of_bytes(&file(&[host(1), kernel, call()]), 2);
    let all = beside.calls[0].compute_us + beside.compute_after_us;
    assert_eq!(all, 30.0);
}

#[test]
fn what_is_wrong_is_said() {
    let error = |bytes: &[u8]| {
        let read = read_protobuf("a.et", bytes);
        let made = read.and_then(|it| chakra::workload(&[it], &["a.et".to_owned()], 4));
        made.unwrap_err().to_string()
    };
    let circle = file(&[node(1, COMPUTE, &[2]), node(2, COMPUTE, &[1])]);
    let again = file(&[node(1, COMPUTE, &[]), node(1, COMPUTE, &[])]);
    let mut short = file(&gradients());
    short.truncate(short.len() - 2);
    for (bytes, expected) in [
        (&circle[..], "a.et:3: node 1 depends on itself"),
        (&again, "a.et:3: another node has id 1, too"),
        (&short, "a.et:7: the file ends after"),
        (&file(&[]), "a.et:1: no node is a collective"),
        (&[0xff; 9], "a.et:1: a length of more than 32 bits"),
        (
            &[0xff, 0xff, 0xff, 0x7f],
            "a.et:1: a message of 268435455 bytes",
        ),
        (&[2, 0x0a, 9], "a.et:1: "),
    ] {
        let found = error(bytes);
        assert!(found.starts_with(expected), "{found}");
    }
}

/// What Chakra's jsonizer writes of the same nodes.
const JSONIZED: &str = r#"{
  "attr": [{"name": "schema", "stringVal": "1.1.1-chakra.0.0.4"}]
}{"id": "1", "name": "x", "type": "COMP_NODE", "durationMicros": "100"
}{"id": "2", "name": "x", "type": "COMM_COLL_NODE", "dataDeps": ["1"], "attr": [
  {"name": "comm_type", "int64Val": "0"}, {"name": "comm_size", "int64Val": "1048576"},
  {"name": "pg_name", "stringVal": "5"}]
}{"id": "3", "name": "x", "type": "COMP_NODE", "dataDeps": ["1"], "durationMicros": "200"
}{"id": "4", "name": "x", "type": "COMM_COLL_NODE", "dataDeps": ["3"], "attr": [
  {"name": "comm_type", "int64Val": "0"}, {"name": "comm_size", "int64Val": "2097152"},
  {"name": "pg_name", "stringVal": "5"}]
}{"id": "5", "name": "x", "type": 4, "dataDeps": ["2", "4"], "durationMicros": "50"
}{"id": "6", "name": "x", "type": "COMP_NODE", "dataDeps": [5], "durationMicros": 25}
"#;

#[test]
fn json_of_the_nodes_is_the_same_trace() {
    assert!(chakra::is_one(JSONIZED));
    let json = read_json("a.json", JSONIZED.as_bytes()).unwrap();
    let binary = read_protobuf("a.et", &file(&gradients())[..]).unwrap();
    assert_eq!(json, binary);
}

/// Two ranks of a job of 4, each with a group of its own; the first sends what it does not wait
/// for.
fn recorded(group: &str, kernel: f64) -> String {
    format!(
        r###"{{"schema": "1.1.0-chakra.0.0.4", "pid": 1, "nodes": [
{{"id": 4, "name": "## process_group:init ##", "ctrl_deps": 3, "inputs": {{"values":
  ["[{{\"pg_name\": \"0\", \"pg_desc\": \"default_pg\", \"ranks\": [], \"group_size\": 4}}, {{\"pg_name\": \"7\", \"pg_desc\": \"tp\", \"ranks\": {group}, \"group_size\": 2}}]"],
  "shapes": [[]], "types": ["String"]}}, "attrs": []}},
{{"id": 30, "name": "record_param_comms", "ctrl_deps": 1, "inputs": {{"values":
  [[[5, 6, 0, 100, 2, "cuda:0"]], 33, ["7", "tp"], 0, "_allgather_base", [], [], 0, 1, 2], "shapes": [],
  "types": ["GenericList[Tensor(c10::BFloat16)]"]}}, "attrs": []}},
{{"id": 31, "name": "ncclDevKernel_AllGather_RING_LL", "ctrl_deps": 30, "cat": "kernel", "inclusive_dur": {kernel}}},
{{"id": 20, "name": "gemm", "ctrl_deps": 1, "cat": "kernel", "inclusive_dur": 12.5}},
{{"id": 40, "name": "gemm", "ctrl_deps": 1, "cat": "kernel", "inclusive_dur": 7}},
{{"id": 41, "name": "aten::add", "ctrl_deps": 1, "inputs": {{"values": [[1, 2, 0, 3, 4, "cuda:0"]]}}}},
{{"id": 50, "name": "record_param_comms", "ctrl_deps": 1, "inputs": {{"values":
  [33, ["", ""], 1, "wait", [], [], -1, -1, 1], "shapes": [], "types": []}}, "attrs": []}},
{{"id": 60, "name": "record_param_comms", "ctrl_deps": 1, "inputs": {{"values":
  [[[5, 6, 0, 100, 4, "cuda:0"]], 34, ["0", "default_pg"], 0, "allreduce", [], [], 0, 1, 4], "shapes": [],
  "types": ["GenericList[Tensor(float)]"]}}, "attrs": [{{"name": "dtype", "type": "string", "value": "Half"}},
  {{"name": "in_msg_nelems", "type": "uint64", "value": 50}}]}},
{{"id": 61, "name": "record_param_comms", "ctrl_deps": 1, "inputs": {{"values": [0, "unheard", [], []]}}, "attrs": []}}
], "finish_ts": 2}}"###
    )
}

fn of_pytorch(text: &str) -> Trace {
    assert!(chakra::is_one(text));
    read_json("rank.json", text.as_bytes()).unwrap()
}

#[test]
fn calls_and_waits_of_pytorch() {
    let traces = [
        of_pytorch(&recorded("[0, 1]", 40.0)),
        of_pytorch(&recorded("[2, 3]", 30.0)),
    ];
    let names = ["a", "b"].map(str::to_owned);
    let found = chakra::workload(&traces, &names, 4).unwrap();
    assert_eq!(found.ranks, Some(4));
    let groups: Vec<String> = found
        .groups
        .iter()
        .map(|it| format!("{} {}", it.name, it.members))
        .collect();
    assert_eq!(groups, ["tp {0-1}{2-3}", "default_pg all"]);
    let [gather, reduce] = &found.calls[..] else {
        panic!("{} calls", found.calls.len())
    };
    // 100 elements of 2 bytes of each of 2 ranks; attributes come before tensors.
    assert_eq!(
        (gather.collective, gather.bytes),
        (Collective::AllGather, 400)
    );
    assert_eq!(
        (reduce.collective, reduce.bytes),
        (Collective::AllReduce, 100)
    );
    assert_eq!(gather.compute_us, 12.5);
    assert_eq!(reduce.waits[0].compute_us, 7.0);
    assert_eq!(reduce.waits[0].after, [0]);
    let measured: Vec<_> = found
        .measured
        .iter()
        .map(|it| (it.time_us, it.waiting_us))
        .collect();
    assert_eq!(measured, [(40.0, Some(10.0)), (0.0, None)]);
    assert!(
        found
            .notes
            .iter()
            .any(|it| it.starts_with("2 nodes of communication are left out"))
    );
}

#[test]
fn a_rank_that_the_job_lacks_is_named() {
    let traces = [of_pytorch(&recorded("[2, 3]", 1.0))];
    let error = chakra::workload(&traces, &["a".to_owned()], 2).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("a:1: node 30: rank 2 is not in the job"),
        "{error}"
    );
}
