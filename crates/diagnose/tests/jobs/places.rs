//! Ranks and hosts that lines name, and hosts and ranks whose lines differ.

use diagnose::{Floor, Pile};
use findings::causes::Certainty::{self, Likely, Proved};

use crate::few::diagnosed;

/// What is found: cause, certainty, ranks, hosts.
type Found = (&'static str, Certainty, Vec<u32>, Vec<String>);

fn found(log: &str) -> Vec<Found> {
    let verdicts = diagnosed(&[], log).verdicts;
    let shown = |it: diagnose::Verdict| (it.cause.id, it.certainty, it.ranks, it.hosts);
    verdicts.into_iter().map(shown).collect()
}

/// Ranks 0 and 1 of one communicator, each with a line: on their hosts, about their connections.
fn pair(hosts: [&str; 2], lines: [&str; 2]) -> String {
    let mut log = String::new();
    for (rank, (host, line)) in hosts.iter().zip(lines).enumerate() {
        for text in [
            &format!(
                "ncclCommInitRank comm 0x1 rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} busId 1b000 commId 0x2 - Init START"
            ),
            line,
        ] {
            log += &format!("{host}:{}:9 [{rank}] NCCL INFO {text}\n", 7 + rank);
        }
    }
    log
}

#[test]
fn hosts_of_other_networks_are_named() {
    let mixed = [
        "Channel 00/0 : 1[1] -> 0[0] [receive] via NET/IB/0/GDRDMA",
        "Channel 00/0 : 1[1] -> 0[0] [send] via NET/Socket/0",
    ];
    let at = || vec!["n2".to_owned()];
    assert_eq!(
        found(&pair(["n1", "n2"], mixed)),
        [("networks-differ", Proved, vec![], at())]
    );
    let same = [mixed[0], "Channel 00/0 : 1[1] -> 0[0] [send] via NET/IB/0"];
    assert!(
        found(&pair(["n1", "n2"], same))
            .iter()
            .all(|it| it.0 != "networks-differ")
    );
    // NCCL's types of sockets: 3 is that of the network of sockets, 4 that of InfiniBand.
    let met = |host: &str, [peer, own]: [u32; 2]| {
        format!(
            "{host}:7:9 [0] misc/socket.cc:534 NCCL WARN socketFinalizeAccept from 10.0.0.2<49615>: wrong type {peer} \
             != {own}\n"
        )
    };
    assert_eq!(
        found(&(met("n1", [3, 4]) + &met("n2", [4, 3]))),
        [("networks-differ", Proved, vec![], at())]
    );
    assert_eq!(found(&met("n1", [9, 4]))[0].0, "port-scanner");
}

#[test]
fn ranks_that_share_memory_differently_are_named() {
    let mixed = [
        "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
        "Channel 00/0 : 1[1] -> 0[0] via P2P/IPC",
    ];
    let host = || vec!["n1".to_owned()];
    assert_eq!(
        found(&pair(["n1", "n1"], mixed)),
        [("settings-differ", Likely, vec![1], host())]
    );
    assert!(found(&pair(["n1", "n1"], [mixed[0]; 2])).is_empty());
}

#[test]
fn diagnostics_of_nccl_name_ranks_and_hosts() {
    let said = |text: &str| found(&format!("n1:7 NCCL DIAG [INFO] {text} in comm 0x1\n"));
    assert_eq!(
        said("net bw: same-nic rank 2 (n3): 244.9 Gbit/s, >30% off median 391.8 Gbit/s"),
        [("port-slow", Likely, vec![2], vec!["n3".to_owned()])]
    );
    let ecc = "ECC: uncorrected volatile errors on rank(s) {1,3} (worst=2) across 4 ranks";
    assert_eq!(said(ecc), [("xid-memory", Likely, vec![1, 3], vec![])]);
    assert!(said("ECC: no uncorrected volatile errors across 4 ranks").is_empty());
    let differs = |name: &str| {
        let text = "NCCL environment: mismatch across 2 ranks in comm 0x1 for";
        found(&format!("n1:7 NCCL DIAG [INFO] {text} {name}\n"))
    };
    assert_eq!(differs("NCCL_BUFFSIZE")[0].0, "settings-differ");
    // These are each host's own.
    for name in ["NCCL_HOSTID", "NCCL_RAS_ADDR", "NCCL_IB_HCA"] {
        assert!(differs(name).is_empty(), "{name}");
    }
    assert!(said("net bw: required external tool missing").is_empty());
    // Another line in the middle is of nobody that it names.
    let cut =
        "p2p: write mismatch srcRank=0 dstRank=1 expected=0x00n1:7:9 [0] NCCL INFO TUNER/Plugin: x";
    assert_eq!(said(cut)[0].2, [0]);
    assert!(said(cut)[0].3.is_empty());
}

/// A multicast slot is what lacks only if the driver's code says so.
#[test]
fn refused_multicast_memory_is_no_lack_of_slots() {
    let log = |code: &str| {
        let counts = "4 coll channels, 0 collnet channels, 16 nvls channels, 8 p2p channels, 2 p2p channels per peer";
        let bind = format!(
            "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 : CUDA error {code}. Proceeding \
             without NVLS support."
        );
        pair(["n1", "n1"], [counts; 2]) + &format!("n1:8:9 [1] NCCL INFO {bind}\n")
    };
    assert_eq!(found(&log("2 'out of memory'"))[0].0, "nvls-slots");
    assert_eq!(found(&log("1 'invalid argument'"))[0].0, "nvls-bind");
    assert_eq!(found(&log("401 'x'"))[0].0, "nvls-fabric");
}

/// Ranks that the communicators do not have are not named by lines of NCCL. PyTorch's watchdog
/// counts those of the whole job, of which the log may have a group alone.
#[test]
fn a_rank_beyond_the_job_is_not_named() {
    let log = pair(["n1", "n1"], ["Connected all rings"; 2]);
    let ecc =
        "n1:7 NCCL DIAG [INFO] ECC: uncorrected volatile errors on rank(s) {1,77} (worst=2)\n";
    assert_eq!(found(&(log.clone() + ecc))[0].2, [1]);
    let absent = "\t - [13] finished collective #8, but didn't join collective #9 (count from 1)\n";
    assert_eq!(found(&(log + crate::TIMEOUT + absent))[0].2, [13]);
}

/// All events are told with their codes, if they are asked for.
#[test]
fn events_have_processes_places_and_codes() {
    let log = "n1:7:9 [1] transport/nvls.cc:80 NCCL WARN Cuda failure 401 'x'\n\
               n1:7:9 [1] x.cc:1 NCCL WARN what no table has\n\
               NVRM: Xid (PCI:0000:1b:00): 79, pid=7\nanother line\n";
    let mut pile = Pile::default();
    pile.tell_events();
    pile.read("job.log", log.as_bytes(), |_| {}).unwrap();
    let events = pile.finish(&Floor).events.unwrap();
    let told = events.iter().map(|it| {
        let host = it.process.as_ref().map(|it| it.host.as_str());
        (it.line.number, host, it.cause, it.code, it.number)
    });
    assert_eq!(
        told.collect::<Vec<_>>(),
        [
            (
                Some(1),
                Some("n1"),
                Some("nvls-fabric"),
                Some("cuda"),
                Some(401)
            ),
            (Some(2), Some("n1"), None, None, None),
            (Some(3), None, Some("xid-79"), Some("xid"), Some(79)),
        ]
    );
}
