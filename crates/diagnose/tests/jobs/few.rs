//! Small jobs, written call by call: what their recorders do not show blames nobody.

use diagnose::{Diagnosis, Floor, Pile};

use crate::{TIMEOUT, shown};

/// A call of the group of all ranks: its place among all calls, function, number and state.
type Call = (u64, &'static str, u64, &'static str);

/// A recorder in JSON. The groups are `name: ranks`, the first one is that of the calls.
fn recorder(groups: &[(&str, &str)], calls: &[Call]) -> String {
    let groups = groups.iter().map(|(name, ranks)| {
        format!(r#""{name}":{{"name":"{name}","desc":"{name}","ranks":"{ranks}"}}"#)
    });
    let calls = calls
        .iter()
        .map(|(place, function, number, state)| call("all", (*place, function, *number, state)));
    format!(
        r#"{{"version":"2.10","pg_config":{{{}}},"entries":[{}]}}"#,
        groups.collect::<Vec<_>>().join(","),
        calls.collect::<Vec<_>>().join(",")
    )
}

fn call(group: &str, (place, function, number, state): Call) -> String {
    let is_pair = function.starts_with("send") || function.starts_with("recv");
    format!(
        r#"{{"record_id":{place},"process_group":["{group}","{group}"],"collective_seq_id":{number},
        "p2p_seq_id":{number},"profiling_name":"nccl:{function}","input_sizes":[[8]],"input_dtypes":["Float"],
        "output_sizes":[[8]],"output_dtypes":["Float"],"state":"{state}","is_p2p":{is_pair},
        "time_created_ns":{}}}"#,
        1_700_000_000_000_000_000 + place
    )
}

pub(crate) fn diagnosed(recorders: &[(&str, String)], log: &str) -> Diagnosis {
    let mut pile = Pile::default();
    for (name, text) in recorders {
        pile.read(name, text.as_bytes(), |_| {}).unwrap();
    }
    if !log.is_empty() {
        pile.read("job.log", log.as_bytes(), |_| {}).unwrap();
    }
    pile.finish(&Floor)
}

/// No verdict names a rank.
#[track_caller]
pub(crate) fn assert_nobody(found: &Diagnosis) {
    let is_blamed = found.verdicts.iter().any(|it| !it.ranks.is_empty());
    assert!(!is_blamed, "{}", shown(&found.verdicts));
}

const ALL: &[(&str, &str)] = &[("all", "[0, 1, 2]")];
const WAITS: Call = (0, "all_reduce", 1, "started");

/// A recorder whose ring was overwritten, was cleared, or has no calls does not show what its rank
/// never called.
#[test]
fn recorders_that_lack_calls_blame_nobody() {
    let groups = &[("all", "[0, 1, 2]"), ("pair", "[1, 2]")];
    let other = |place, number| {
        let ended = call("pair", (place, "all_reduce", number, "completed"));
        recorder(groups, &[]).replace("[]", &format!("[{ended}]"))
    };
    let empty = recorder(groups, &[]);
    let unnumbered = other(0, 1).replace(r#""record_id":0,"#, "");
    for last in [other(2000, 7), other(0, 7), empty, unnumbered] {
        let waits = recorder(groups, &[WAITS]);
        let all = [
            ("rank_0", recorder(ALL, &[WAITS])),
            ("rank_1", waits),
            ("rank_2", last),
        ];
        let found = diagnosed(&all, TIMEOUT);
        assert_nobody(&found);
        let is_stalled = found
            .verdicts
            .iter()
            .any(|it| it.cause.id == "transfer-stalled");
        assert!(!is_stalled, "{}", shown(&found.verdicts));
        let missing = found
            .missing
            .iter()
            .any(|it| it.what.contains("how far rank 2"));
        assert!(missing, "{:?}", found.missing);
    }
}

/// The lines of a stuck watchdog give one verdict, of all ranks that log one.
#[test]
fn one_line_of_the_watchdog_gives_one_verdict() {
    let line = |rank: u32| {
        format!(
            "[rank{rank}]:[F ProcessGroupNCCL.cpp:1413] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] \
             ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress.\n"
        )
    };
    for (log, ranks) in [(line(3), vec![3]), (line(3) + &line(1), vec![1, 3])] {
        let found = diagnosed(&[], &log);
        let [only] = &found.verdicts[..] else {
            panic!("{}", shown(&found.verdicts));
        };
        assert_eq!((only.cause.id, &only.ranks), ("watchdog-stuck", &ranks));
    }
    let found = diagnosed(&[], &(TIMEOUT.to_owned() + &line(0)));
    assert!(
        found
            .verdicts
            .iter()
            .all(|it| it.cause.id != "watchdog-stuck")
    );
    let line = "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: \
                CollectiveFingerPrint(OpType=ALLGATHER), but Rank 2 is running collective: \
                CollectiveFingerPrint(OpType=ALLREDUCE).\n";
    assert_eq!(diagnosed(&[], line).verdicts.len(), 1);
}

/// Lines of a rank that waits in a call of a group, after it finished the call before.
fn waits(rank: u32, group: &str, number: u64) -> String {
    let head = format!("[rank{rank}]:[E ProcessGroupNCCL.cpp:1] [PG ID 1 PG GUID {group} Rank 0]");
    format!(
        "{head} Watchdog caught collective operation timeout: WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, \
         NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600024 milliseconds before timing out.\n\
         {head} failure detected by watchdog at work sequence id: {number} PG status: last enqueued work: {number}, \
         last completed work: {}\n",
        number - 1
    )
}

fn got_signal(rank: u32, group: &str, last: u64) -> String {
    format!(
        "[rank{rank}]:[E ProcessGroupNCCL.cpp:2] [PG ID 1 PG GUID {group} Rank 0] Received a dump signal due to a \
         collective timeout from rank 0. Last enqueued NCCL work: {last}, last completed NCCL work: {last}.\n"
    )
}

/// Two groups wait on different ranks: one missing rank explains that as well as two orders do.
#[test]
fn groups_that_wait_apart_are_crossed_only_if_each_waits_for_the_other() {
    let apart = waits(0, "10", 5) + &waits(3, "11", 9);
    let ids = |log: &str| -> Vec<(&str, Vec<u32>)> {
        let found = diagnosed(&[], log).verdicts;
        found
            .into_iter()
            .map(|it| (it.cause.id, it.ranks))
            .collect()
    };
    let none = Vec::new;
    assert_eq!(
        ids(&apart),
        [("rank-missing", none()), ("group-order", none())]
    );
    let dead = apart.clone() + &got_signal(7, "10", 4) + &got_signal(7, "11", 8);
    assert_eq!(
        ids(&dead),
        [("rank-missing", vec![7]), ("rank-missing", vec![7])]
    );
    // Rank 3 is late in the group of rank 0, because it waits for rank 7.
    let chain = apart.clone() + &got_signal(3, "10", 4) + &got_signal(7, "11", 8);
    assert_eq!(
        ids(&chain),
        [("rank-missing", vec![7]), ("rank-missing", none())]
    );
    let crossed = apart + &got_signal(3, "10", 4) + &got_signal(0, "11", 8);
    assert_eq!(ids(&crossed), [("group-order", none())]);
}

/// A recorder in JSON of calls of any groups.
fn mixed(groups: &[(&str, &str)], calls: &[(&str, Call)]) -> String {
    let calls: Vec<String> = calls.iter().map(|(group, it)| call(group, *it)).collect();
    recorder(groups, &[]).replace("[]", &format!("[{}]", calls.join(",")))
}

/// Rank 2 waits in a later call of its group than others do; nobody knows why those are not done.
#[test]
fn a_rank_that_waits_in_a_later_call_is_not_missing() {
    let groups = &[("all", "[0, 1, 2]"), ("pair", "[1, 2]")];
    let last = [
        ("pair", (0, "broadcast", 1, "completed")),
        ("pair", (1, "broadcast", 2, "started")),
    ];
    let middle = [
        ("pair", (0, "broadcast", 1, "started")),
        ("all", (1, "all_reduce", 1, "scheduled")),
    ];
    let all = [
        ("rank_0", recorder(ALL, &[WAITS])),
        ("rank_1", mixed(groups, &middle)),
        ("rank_2", mixed(groups, &last)),
    ];
    let found = diagnosed(&all, TIMEOUT);
    assert!(
        found.verdicts.iter().all(|it| !it.ranks.contains(&2)),
        "{}",
        shown(&found.verdicts)
    );
}

/// Each of two ranks is first in another group: either could be wrong.
#[test]
fn of_two_orders_on_one_rank_each_nobody_is_blamed() {
    let groups = &[("all", "[0, 1]"), ("other", "[0, 1]")];
    let first = |group| mixed(groups, &[(group, WAITS)]);
    let found = diagnosed(
        &[("rank_0", first("all")), ("rank_1", first("other"))],
        TIMEOUT,
    );
    assert_eq!(found.verdicts[0].cause.id, "group-order");
    assert_nobody(&found);
}

/// A recorder that is not given says nothing of its rank, also not of those beside it.
#[test]
fn ranks_whose_recorder_is_not_given_are_not_blamed() {
    let groups = &[("all", "[0, 1, 2, 3, 4, 5]")];
    let waits = || recorder(groups, &[WAITS]);
    let ended = recorder(groups, &[(0, "all_reduce", 0, "completed")]);
    let found = diagnosed(&[("rank_0", waits()), ("rank_1", waits())], TIMEOUT);
    let [only] = &found.verdicts[..] else {
        panic!("{}", shown(&found.verdicts));
    };
    assert_eq!(
        (only.cause.id, only.certainty),
        ("rank-silent", findings::causes::Certainty::Possible)
    );
    assert_nobody(&found);
    let absent = found
        .missing
        .iter()
        .any(|it| it.what == "the flight recorders of ranks 2-5");
    assert!(absent, "{:?}", found.missing);
    // One waits, two do not; of three nothing is known.
    let all = [
        ("rank_0", waits()),
        ("rank_1", ended.clone()),
        ("rank_2", ended),
    ];
    assert_nobody(&diagnosed(&all, TIMEOUT));
}

/// Ranks of a running job are an operation apart: in one report that means nothing.
#[test]
fn a_rank_behind_in_one_report_of_ras_is_not_blamed() {
    let report = |operation: u32| {
        format!(
            "#1-0 (9a3f) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n  \
             7 ranks have launched up to operation {operation}\n  1 ranks have launched up to operation 39\n  \
             Rank 5 has launched up to operation 39 -- GPU 1 managed by process 77 on node n2\n"
        )
    };
    let blamed = |all: &[String], log: &str| {
        let all: Vec<(&str, String)> = all.iter().map(|it| ("ras.txt", it.clone())).collect();
        let found = diagnosed(&all, log);
        let is_asked = found
            .missing
            .iter()
            .any(|it| it.how.contains("ncclras again"));
        let ranks: Vec<u32> = found
            .verdicts
            .iter()
            .flat_map(|it| it.ranks.clone())
            .collect();
        (ranks, is_asked)
    };
    assert_eq!(blamed(&[report(40)], ""), (vec![], true));
    assert_eq!(blamed(&[report(40), report(41)], ""), (vec![], true));
    assert_eq!(blamed(&[report(40), report(40)], ""), (vec![5], false));
    assert_eq!(blamed(&[report(40)], TIMEOUT), (vec![5], false));
}

const PAIR: &[(&str, &str)] = &[("all", "[0, 1]")];

/// The second send meets the second receive, though the recorder of the receiver shows the first
/// two ended, and that of the sender none.
#[test]
fn sends_meet_receives_by_their_order() {
    let sized = |recorder: String, numbers: &[u64]| {
        // Each call has another size.
        numbers.iter().fold(recorder, |all, it| {
            let (head, tail) = all.split_at(all.find(&format!(r#""p2p_seq_id":{it},"#)).unwrap());
            head.to_owned() + &tail.replacen("[[8]]", &format!("[[{it}]]"), 2)
        })
    };
    let (send, receive) = ("send 0->1", "recv 1<-0");
    let sends = [
        (0, send, 1, "started"),
        (1, send, 2, "started"),
        (2, send, 3, "started"),
    ];
    let receives = [
        (0, receive, 1, "completed"),
        (1, receive, 2, "completed"),
        (2, receive, 3, "started"),
    ];
    let numbers = [1, 2, 3];
    let all = |first: u64| {
        let moved = |calls: [Call; 3]| {
            let calls = calls.map(|it| (it.0 + first, it.1, it.2, it.3));
            sized(recorder(PAIR, &calls), &numbers)
        };
        [("rank_0", moved(sends)), ("rank_1", moved(receives))]
    };
    for (first, log) in [(0, TIMEOUT), (0, ""), (500, "")] {
        let found = diagnosed(&all(first), log);
        assert_nobody(&found);
        let differs = found
            .verdicts
            .iter()
            .any(|it| it.cause.id == "size-mismatch");
        assert!(!differs, "{}", shown(&found.verdicts));
    }
}

/// A recorder that lacks older calls does not show that a receive is missing in a running job.
#[test]
fn an_open_send_of_a_running_job_blames_nobody() {
    let send = recorder(PAIR, &[(900, "send 0->1", 901, "started")]);
    let receive = |state| recorder(PAIR, &[(700, "recv 1<-0", 701, state)]);
    let found = |log: &str| {
        let all = [("rank_0", send.clone()), ("rank_1", receive("completed"))];
        diagnosed(&all, log).verdicts
    };
    assert!(found("").is_empty(), "{}", shown(&found("")));
    let [only] = &found(TIMEOUT)[..] else {
        panic!("{}", shown(&found(TIMEOUT)));
    };
    assert_eq!((only.cause.id, &only.ranks), ("peer-missing", &vec![1]));
}

/// Rank 0 receives first, rank 1 reduces first: either could be wrong.
#[test]
fn a_receive_before_and_after_a_reduction_blames_nobody() {
    let first = recorder(PAIR, &[(0, "recv 0<-1", 1, "started")]);
    let second = recorder(PAIR, &[(0, "all_reduce", 1, "started")]);
    let found = diagnosed(&[("rank_0", first), ("rank_1", second)], TIMEOUT);
    assert_eq!(
        found.verdicts[0].cause.id,
        "peer-missing",
        "{}",
        shown(&found.verdicts)
    );
    assert_nobody(&found);
}

/// A cut recorder may begin inside of a coalesced call.
#[test]
fn the_first_call_of_a_cut_recorder_is_not_compared() {
    let part = |place, state| (place, "all_gather_into_tensor_coalesced", 5, state);
    let last = (12, "all_reduce", 6, "started");
    let whole = || recorder(ALL, &[part(10, "completed"), part(11, "completed"), last]);
    let cut = recorder(ALL, &[part(11, "completed"), last]);
    let found = diagnosed(
        &[("rank_0", whole()), ("rank_1", whole()), ("rank_2", cut)],
        TIMEOUT,
    );
    assert_eq!(
        found.verdicts[0].cause.id,
        "transfer-stalled",
        "{}",
        shown(&found.verdicts)
    );
    assert_nobody(&found);
}

/// Where as many ranks are on one side as on the other, or of most nothing is known, nobody knows
/// which is right.
#[test]
fn of_two_equal_sides_neither_is_blamed() {
    let calls = |size: &str| recorder(PAIR, &[WAITS]).replace("[[8]]", size);
    let all = [("rank_0", calls("[[8]]")), ("rank_1", calls("[[9]]"))];
    let found = diagnosed(&all, TIMEOUT);
    assert_eq!(found.verdicts[0].cause.id, "size-mismatch");
    assert_nobody(&found);
    let skips = [
        (0, "all_reduce", 1, "started"),
        (1, "broadcast", 2, "scheduled"),
    ];
    let ahead = [(0, "broadcast", 1, "started")];
    let found = diagnosed(
        &[
            ("rank_0", recorder(PAIR, &skips)),
            ("rank_1", recorder(PAIR, &ahead)),
        ],
        TIMEOUT,
    );
    assert_eq!(
        found.verdicts[0].cause.id,
        "collective-mismatch",
        "{}",
        shown(&found.verdicts)
    );
    assert_nobody(&found);
    let groups = &[("all", "[0, 1, 2, 3, 4, 5, 6]")];
    let calls = |size: &str| recorder(groups, &[WAITS]).replace("[[8]]", size);
    let all = ["[[8]]", "[[9]]", "[[8]]"].map(calls);
    let all: Vec<(&str, String)> = ["rank_0", "rank_1", "rank_2"]
        .into_iter()
        .zip(all)
        .collect();
    assert_nobody(&diagnosed(&all, TIMEOUT));
    let lists = ["[0, 1]", "[0, 1, 2]"].map(|it| recorder(&[("all", it)], &[WAITS]));
    let all: Vec<(&str, String)> = ["rank_0", "rank_1"].into_iter().zip(lists).collect();
    let found = diagnosed(&all, TIMEOUT);
    assert_eq!(
        found.verdicts[0].cause.id,
        "group-differs",
        "{}",
        shown(&found.verdicts)
    );
    assert_nobody(&found);
    let set = |host: &str, value: u32| {
        format!("{host}:7:9 [0] NCCL INFO NCCL_BUFFSIZE set by environment to {value}.\n")
    };
    let hosts = |log: &str| diagnosed(&[], log).verdicts[0].hosts.clone();
    assert!(hosts(&(set("n1", 1) + &set("n2", 2))).is_empty());
    assert_eq!(
        hosts(&(set("n1", 1) + &set("n2", 2) + &set("n3", 1))),
        ["n2"]
    );
}

/// A file of an earlier run, or of another rank than its name says, is left out with a word.
#[test]
fn recorders_of_other_runs_and_ranks_are_left_out() {
    let waits = || recorder(ALL, &[WAITS]);
    let old = recorder(ALL, &[(0, "all_reduce", 0, "completed")])
        .replace("1700000000000000000", "1600000000000000000");
    let found = |name: &str, last: String| {
        let all = [("rank_0", waits()), ("rank_1", waits()), (name, last)];
        let found = diagnosed(&all, TIMEOUT);
        assert_nobody(&found);
        found
            .missing
            .into_iter()
            .map(|it| it.what)
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert!(found("rank_2", old).contains("1 are older than others and left out, such as rank_2"));
    let ended = || recorder(ALL, &[(0, "all_reduce", 0, "completed")]);
    let other =
        |text: String| found("rank_2", text).contains("than their names say, such as rank_2");
    assert!(other(recorder(&[("all", "[0, 1]")], &[])));
    assert!(other(recorder(ALL, &[(0, "send 1->0", 1, "completed")])));
    assert!(other(ended().replacen("{", r#"{"rank":1,"#, 1)));
    assert!(!found("rank_1.json", ended()).contains("names say"));
}

/// One rank waits, the other did not come: either may be wrong, unless a third one waits for it.
#[test]
fn in_a_group_of_two_nobody_is_blamed_for_not_coming() {
    let ended = [(0, "all_reduce", 0, "completed")];
    let waits = [ended[0], (1, "all_reduce", 1, "started")];
    for log in ["", TIMEOUT] {
        let all = [
            ("rank_0", recorder(PAIR, &waits)),
            ("rank_1", recorder(PAIR, &ended)),
        ];
        let found = diagnosed(&all, log);
        let first = &found.verdicts[0];
        assert_eq!(first.cause.id, "rank-missing", "{}", shown(&found.verdicts));
        assert_eq!(first.certainty, findings::causes::Certainty::Possible);
        assert_nobody(&found);
        let all = [
            ("rank_0", recorder(ALL, &waits)),
            ("rank_1", recorder(ALL, &ended)),
            ("rank_2", recorder(ALL, &waits)),
        ];
        assert_eq!(diagnosed(&all, log).verdicts[0].ranks, [1]);
    }
}
