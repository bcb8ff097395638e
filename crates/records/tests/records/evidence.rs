//! Readers on inputs in the form of other programs.

use records::evidence::Recorders;
use records::evidence::inspector;
use records::evidence::pickle::{Pickle, PickleError};
use records::evidence::ras::{self, Trouble};
use records::evidence::recorder::{RecorderError, State, rank_in_name};
use records::evidence::watchdog::{self, Event};

/// Pickles of one recorder that Python wrote, by protocol.
const PICKLES: [&[u8]; 6] = [
    include_bytes!("pickles/protocol-0.pickle"),
    include_bytes!("pickles/protocol-1.pickle"),
    include_bytes!("pickles/protocol-2.pickle"),
    include_bytes!("pickles/protocol-3.pickle"),
    include_bytes!("pickles/protocol-4.pickle"),
    include_bytes!("pickles/protocol-5.pickle"),
];

#[test]
fn all_protocols_hold_the_same_recorder() {
    for (protocol, bytes) in PICKLES.iter().enumerate() {
        let mut all = Recorders::default();
        all.read("nccl_trace_rank_7", bytes).unwrap();
        let dump = &all.dumps[0];
        assert_eq!(
            (dump.rank, dump.version.as_str()),
            (Some(7), "2.10"),
            "protocol {protocol}"
        );
        assert_eq!(all.groups[dump.groups[0] as usize].ranks, [0, 1]);
        let [first, second] = dump.entries[..] else {
            panic!("{} entries", dump.entries.len());
        };
        assert_eq!(
            (first.state, second.state),
            (State::Completed, State::Started)
        );
        assert_eq!(
            (second.sequence, second.elements, second.timeout),
            (2, [3072, 3072], 600_000)
        );
        assert_eq!(all.symbols.text(second.function), "all_reduce");
        assert_eq!(all.symbols.text(second.types), "Float");
        assert_eq!(all.symbols.text(second.frame), "step (train.py:300)");
    }
}

/// Each prefix of a pickle is refused, and none panics.
#[test]
fn cut_pickles_are_refused() {
    for bytes in PICKLES {
        for end in 0..bytes.len() {
            assert!(Pickle::read(&bytes[..end]).is_err(), "{end}");
        }
    }
}

#[test]
fn calls_are_named_and_never_made() {
    let hostile: [(&[u8], &str); 5] = [
        (b"cposix\nsystem\n(S'true'\ntR.", "posix.system"),
        (
            b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.",
            "posix.system",
        ),
        (b"(S'true'\nios\nsystem\n.", "os.system"),
        (b"\x80\x02c__builtin__\neval\n)\x81.", "__builtin__.eval"),
        (
            b"\x80\x02ctorch.jit._pickle\nrestore_type_tag\n)R.",
            "torch.jit._pickle.restore_type_tag",
        ),
    ];
    for (bytes, name) in hostile {
        let error = Pickle::read(bytes).unwrap_err();
        assert_eq!(error, PickleError::Calls(name.to_owned()));
        let error = Recorders::default().read("x", bytes).unwrap_err();
        assert!(
            matches!(error, RecorderError::Pickle(_))
                && error.to_string().contains("nothing was executed")
        );
    }
}

/// PyTorch's C++ code marks lists of numbers with a function that keeps them as they are.
#[test]
fn lists_with_a_type_are_lists() {
    let bytes = b"\x80\x02}(X\x07\x00\x00\x00entries](}(X\x0b\x00\x00\x00input_sizes](\
                  ctorch.jit._pickle\nbuild_intlist\n](K\x03K\x05e\x85Reueu.";
    let mut all = Recorders::default();
    all.read("rank_0", bytes).unwrap();
    assert_eq!(all.dumps[0].entries[0].elements[0], 15);
}

/// A few bytes that mean gigabytes: values that repeat and contain themselves.
#[test]
fn values_that_repeat_or_contain_themselves_do_no_harm() {
    let mut circle = b"\x80\x02}q\x00(X\x07\x00\x00\x00entries]q\x01(".to_vec();
    circle.extend(b"h\x01".repeat(100_000));
    circle.extend(b"eu.");
    assert!(Recorders::default().read("rank_0", &circle).is_err());
    let mut doubled = b"\x80\x02]q\x00".to_vec();
    doubled.extend(b"(".repeat(2_000_000));
    doubled.push(b'.');
    assert_eq!(Pickle::read(&doubled).unwrap_err(), PickleError::TooLarge);
    let mut wide = b"\x80\x02]q\x00(".to_vec();
    wide.extend(b"h\x00".repeat(6_000_000));
    wide.extend(b"e.");
    assert_eq!(Pickle::read(&wide).unwrap_err(), PickleError::TooLarge);
}

/// A call that the pickle refers to again and again counts each time.
#[test]
fn values_that_are_referred_to_often_are_bounded() {
    let mut often =
        b"\x80\x02}(X\x07\x00\x00\x00entries](}q\x01(X\x0b\x00\x00\x00input_sizes](](".to_vec();
    often.extend(b"K\x01".repeat(16));
    often.extend(b"eq\x02");
    often.extend(b"h\x02".repeat(1000));
    often.extend(b"eu");
    often.extend(b"h\x01".repeat(20_000));
    often.extend(b"eu.");
    let error = Recorders::default().read("rank_0", &often).unwrap_err();
    assert!(
        matches!(error, RecorderError::Pickle(PickleError::TooLarge)),
        "{error}"
    );
}

/// A few megabytes of empty ranks would take a hundred times as much.
#[test]
fn reports_of_ras_are_bounded() {
    let ranks = ["{}"].repeat(1 << 20).join(",");
    let text = format!(r#"{{"communicators_count":1,"communicators":[{{"ranks":[{ranks}]}}]}}"#);
    assert!(matches!(
        ras::json(text.as_bytes()),
        Err(ras::ReportError::TooLarge)
    ));
    let mut reader = ras::Reader::default();
    let ranks = (0..100_u64).flat_map(|it| {
        let head = format!("#0-{it} (a) DEAD");
        let rank = |rank: u32| format!("  Rank {rank} -- GPU 1 managed by process 77 on node n2");
        [head].into_iter().chain((0..100).map(rank))
    });
    ranks.for_each(|line| reader.line(&line, 1));
    let report = reader.finish().unwrap();
    let kept: usize = report.findings.iter().map(|it| it.ranks.len()).sum();
    assert_eq!((kept, report.late), (4096, 4096));
}

#[test]
fn a_recorder_in_json_is_read() {
    let text = r#"{"version":"2.5","pg_config":{"0":{"name":"0","desc":"default_pg","ranks":"[0, 1, 2]"}},
        "entries":[{"record_id":3,"process_group":["0","default_pg"],"collective_seq_id":4,
        "profiling_name":"nccl:send 0->2","is_p2p":true,"p2p_seq_id":9,"state":"scheduled",
        "input_sizes":[[2,3],[4]],"time_discovered_completed_ns":0}]}"#;
    let mut all = Recorders::default();
    all.read("dump_12.json", text.as_bytes()).unwrap();
    let dump = &all.dumps[0];
    let entry = dump.entries[0];
    assert_eq!((dump.rank, dump.is_whole), (Some(12), false));
    assert_eq!(
        (entry.sequence, entry.is_point_to_point, entry.elements[0]),
        (9, true, 10)
    );
    let error = all.read("x", br#"{"format":"topo-plan"}"#).unwrap_err();
    assert!(matches!(error, RecorderError::Empty));
}

/// Of a recorder with more calls than are kept the newest are kept, and it is not whole.
#[test]
fn the_newest_calls_are_kept() {
    let calls: Vec<String> = (0..30_000)
        .map(|it| format!(r#"{{"record_id":{it},"collective_seq_id":{}}}"#, it + 1))
        .collect();
    let read = |calls: &[String]| {
        let mut all = Recorders::default();
        let text = format!(r#"{{"pg_config":{{}},"entries":[{}]}}"#, calls.join(","));
        all.read("rank_0", text.as_bytes()).unwrap();
        let last = all.dumps[0].entries.last().map(|it| it.sequence);
        (last, all.dumps[0].is_whole, all.is_full)
    };
    assert_eq!(read(&calls), (Some(30_000), false, true));
    assert_eq!(read(&calls[..9]), (Some(9), true, false));
    assert_eq!(read(&calls[1..9]), (Some(9), false, false));
}

#[test]
fn ranks_are_in_names_of_files() {
    for (name, rank) in [
        ("/tmp/nccl_trace_rank_12", Some(12)),
        ("job.tar.gz: host3/nccl_trace_rank_0.pickle", Some(0)),
        ("Rank7.json", Some(7)),
        ("fr-2024-15.pkl", Some(15)),
        ("recorder", None),
    ] {
        assert_eq!(rank_in_name(name), rank, "{name}");
    }
}

#[test]
fn lines_of_the_watchdog_are_read() {
    let line = "(pid=7) [rank5]:[E618 04:54:22.8 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective \
                operation timeout: WorkNCCL(SeqNum=216, OpType=ALLTOALL_BASE, NumelIn=13, NumelOut=15, \
                Timeout(ms)=600000) ran for 600045 milliseconds before timing out.";
    let Some(Event::Timeout(it)) = watchdog::read(line) else {
        panic!();
    };
    assert_eq!(
        (it.by.global, it.by.local, it.sequence),
        (Some(5), Some(1), Some(216))
    );
    assert_eq!(
        (it.function.as_str(), it.elements),
        ("ALLTOALL_BASE", Some([13, 15]))
    );
    assert_eq!((it.limit, it.ran), (Some(600_000), Some(600_045)));
    let old = "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(OpType=BROADCAST, \
               Timeout(ms)=1800000) ran for 1804406 milliseconds before timing out.";
    let Some(Event::Timeout(it)) = watchdog::read(old) else {
        panic!();
    };
    assert_eq!(
        (it.by.local, it.sequence, it.ran),
        (Some(3), None, Some(1_804_406))
    );
    for line in [
        "[rank5]:[E] [PG ID 11 PG GUID 119 Rank 1] Exception (either an error or timeout) detected by watchdog \
         at work: 216, last enqueued NCCL work: 220, last completed NCCL work: -1.",
        "[rank5]:[E] [PG ID 11 PG GUID 119 Rank 1]  failure detected by watchdog at work sequence id: 216 PG \
         status: last enqueued work: 220, last completed work: -1",
    ] {
        let Some(Event::Progress(it)) = watchdog::read(line) else {
            panic!();
        };
        assert_eq!(
            (it.sequence, it.last, it.by.group.as_deref()),
            (216, Some([220, -1]), Some("119"))
        );
    }
}

#[test]
fn reports_of_ranks_out_of_step_are_read() {
    let cases = [
        (
            "\t - [1, 3] finished collective #4, but didn't join collective #5 (count from 1)",
            Event::NotJoined(vec![1, 3], Some(5)),
        ),
        (
            "\t - ranks: [2]. They never joined any collectives",
            Event::NotJoined(vec![], None),
        ),
        (
            "[Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 10000 ms",
            Event::Barrier(vec![1, 2]),
        ),
        (
            "\t - [0] joined but didn't finish collective #5 (count from 1)",
            Event::NotFinished(vec![0], 5),
        ),
    ];
    for (line, expected) in cases {
        let found = watchdog::read(line);
        match expected {
            // The list may stand before the words in some versions.
            Event::NotJoined(ranks, None) if ranks.is_empty() => assert!(found.is_some()),
            expected => assert_eq!(found, Some(expected), "{line}"),
        }
    }
    let line = "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: \
                CollectiveFingerPrint(SequenceNumber=18, OpType=ALLGATHER, TensorShape=[4], TensorDtypes=Float, \
                TensorDeviceTypes=x), but Rank 2 is running collective: \
                CollectiveFingerPrint(SequenceNumber=18, OpType=ALLREDUCE).";
    let Some(Event::Mismatch([(0, one), (2, other)])) = watchdog::read(line) else {
        panic!();
    };
    assert_eq!(
        one,
        "SequenceNumber=18, OpType=ALLGATHER, TensorShape=[4], TensorDtypes=Float"
    );
    assert_eq!(other, "SequenceNumber=18, OpType=ALLREDUCE");
}

const REPORT: &str = "\
Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         4         8         8   RUNNING      OK
    1         1         2         4         8         8  MISMATCH      OK

Warnings
========

#1-0 (9a3f) MISMATCH
  Communicator ranks have different AllReduce operation counts
  7 ranks have launched up to operation 40
  1 ranks have launched up to operation 39
  Rank 5 has launched up to operation 39 -- GPU 1 managed by process 77 on node n2
";

#[test]
fn reports_of_ras_are_read() {
    let mut reader = ras::Reader::default();
    for (number, line) in (1..).zip(REPORT.lines()) {
        reader.line(line, number);
    }
    let report = reader.finish().unwrap();
    assert_eq!(
        (report.communicators, report.healthy, report.healthy_line),
        (2, 1, 3)
    );
    let [finding] = &report.findings[..] else {
        panic!("{report:?}");
    };
    assert_eq!(
        finding.trouble,
        Trouble::Behind("AllReduce".to_owned(), 39, 40)
    );
    assert_eq!(
        (finding.ranks[0].rank, finding.ranks[0].host.as_str()),
        (5, "n2")
    );
    assert_eq!(finding.communicator, "#1-0 (9a3f)");
}

#[test]
fn reports_of_ras_in_json_are_read() {
    let rank = |rank: u32, count: u32| {
        // Operations are in any order.
        let counts = match rank {
            1 => format!(r#""AllReduce":{count},"Broadcast":1"#),
            _ => format!(r#""Broadcast":1,"AllReduce":{count}"#),
        };
        format!(
            r#"{{"rank":{rank},"host":"n{rank}","pid":7,"status":{{"init_state":0,"async_error":0}},
               "collective_counts":{{{counts}}}}}"#
        )
    };
    let text = format!(
        r#"{{"nccl_version":"2.31.2","communicators_count":1,"communicators":[{{"hash":"0x1","size":4,
           "ranks":[{},{},{}],"missing_ranks":[{{"rank":3,"host":"n3","pid":9,
           "status":{{"unresponsive":true,"considered_dead":true}}}}]}}],"ras":{{}}}}"#,
        rank(0, 5),
        rank(1, 5),
        rank(2, 4)
    );
    let report = ras::json(text.as_bytes()).unwrap();
    let troubles: Vec<(&Trouble, u32)> = report
        .findings
        .iter()
        .map(|it| (&it.trouble, it.ranks[0].rank))
        .collect();
    assert_eq!(
        troubles,
        [
            (&Trouble::Dead, 3),
            (&Trouble::Behind("AllReduce".to_owned(), 4, 5), 2)
        ]
    );
}

/// One rank that is ahead makes nobody late, and of two halves neither is.
#[test]
fn ranks_of_ras_are_late_only_beside_most_others() {
    let read = |lines: &str| {
        let mut reader = ras::Reader::default();
        for (number, line) in (1..).zip(REPORT.lines().take(10).chain(lines.lines())) {
            reader.line(line, number);
        }
        reader.finish().unwrap().findings.len()
    };
    let late = "  Rank 5 has launched up to operation 39 -- GPU 1 managed by process 77 on node n2";
    for (ahead, behind, expected) in [(7, 1, 1), (1, 7, 0), (4, 4, 0)] {
        let counts = format!(
            "  {ahead} ranks have launched up to operation 40\n  {behind} ranks have launched up to operation 39\n"
        );
        assert_eq!(read(&(counts + late)), expected, "{ahead} ahead");
    }
}

#[test]
fn lines_of_inspector_have_rank_and_time() {
    let line = r#"{"header":{"id":"0x7f8c","comm_name":"unknown","rank":2,"n_ranks":8,"nnodes":1},"metadata":{"inspector_output_format_version":"v4.0","hostname":"n1","pid":7},"coll_perf":{"coll":"AllReduce","coll_sn":1407,"coll_msg_size_bytes":17179869184,"coll_exec_time_us":61974,"coll_timing_source":"kernel_gpu","coll_algobw_gbs":277.2,"coll_busbw_gbs":485.1}}"#;
    let ended = inspector::read(line).unwrap();
    assert_eq!(
        (
            ended.communicator.as_str(),
            ended.rank,
            ended.ranks,
            ended.host.as_str()
        ),
        ("0x7f8c", 2, 8, "n1")
    );
    assert_eq!(
        (ended.collective, ended.sequence, ended.bytes, ended.time),
        (
            Some(program::Collective::AllReduce),
            1407,
            17_179_869_184,
            61_974
        )
    );
    assert!(ended.is_gpu_time);
    let by_processor = line.replace("kernel_gpu", "collective_cpu");
    assert!(!inspector::read(&by_processor).unwrap().is_gpu_time);
    // Older versions measure by the GPU, and do not say so.
    let older = line.replace(r#""coll_timing_source":"kernel_gpu","#, "");
    assert!(inspector::read(&older).unwrap().is_gpu_time);
    for wrong in [r#""rank":8"#, r#""rank":-1"#, r#""rank":"x""#] {
        assert_eq!(inspector::read(&line.replace(r#""rank":2"#, wrong)), None);
    }
    assert_eq!(inspector::read(&line[..200]), None);
}
