//! Several jobs, or attempts at one, in one log.

use diagnose::{Diagnosis, Floor, Pile, Verdict};

use crate::few::assert_nobody;

/// An attempt of two ranks on hosts `n0` and `n1`; `id` tells its processes and communicator from
/// others.
struct Attempt {
    id: u32,
    version: &'static str,
    /// What each host says before the start, besides its version.
    says: [&'static str; 2],
    /// The start ends.
    ends: bool,
    /// The last lines, each by a host.
    last: &'static [(u32, &'static str)],
}

const HEALTHY: Attempt = Attempt {
    id: 5,
    version: "2.30.7+cuda12.9",
    says: ["Using network IB"; 2],
    ends: true,
    last: &[],
};

const CLOSED: (u32, &str) = (
    0,
    "misc/socket.cc:1 NCCL WARN Connection closed by remote peer n1",
);
const FILES: (u32, &str) = (
    1,
    "os/linux.cc:2 (ncclOsSocketResetFd) NCCL WARN Call to socket failed: Too many open files",
);

impl Attempt {
    fn log(&self) -> String {
        let id = self.id;
        let info = |host: u32, text: &str| format!("n{host}:{id}{host}:9 [0] NCCL INFO {text}\n");
        let start = |host: u32, stage: &str| {
            let text = format!(
                "ncclCommInitRank comm 0x7f rank {host} nranks 2 cudaDev 0 nvmlDev 0 busId 901000 commId 0x8e{id} - Init {stage}"
            );
            info(host, &text)
        };
        let mut log = String::new();
        for host in 0..2 {
            log += &info(host, &format!("NCCL version {}", self.version));
            log += &info(host, self.says[host as usize]);
            log += &start(host, "START");
        }
        if self.ends {
            log += &start(0, "COMPLETE");
            log += &start(1, "COMPLETE");
        }
        for (host, text) in self.last {
            log += &format!("n{host}:{id}{host}:9 [0] {text}\n");
        }
        log
    }
}

fn found(attempts: &[Attempt]) -> Diagnosis {
    let log: String = attempts.iter().map(Attempt::log).collect();
    let mut pile = Pile::default();
    pile.read("job.log", log.as_bytes(), |_| {}).unwrap();
    pile.finish(&Floor)
}

fn ids(found: &Diagnosis) -> Vec<&str> {
    found.verdicts.iter().map(|it| it.cause.id).collect()
}

#[test]
fn attempts_that_differ_are_not_compared() {
    let other = Attempt {
        id: 6,
        version: "2.27.7+cuda12.9",
        says: ["Using network Socket"; 2],
        ..HEALTHY
    };
    assert!(ids(&found(&[HEALTHY, other])).is_empty());
    // Neither attempt ends its start, and each takes one network.
    let [first, second] = [(5, "IB"), (6, "Socket")].map(|(id, network)| Attempt {
        id,
        says: match network {
            "IB" => ["Using network IB"; 2],
            _ => ["Using network Socket"; 2],
        },
        ends: false,
        ..HEALTHY
    });
    let both = found(&[first, second]);
    assert!(!ids(&both).contains(&"networks-differ"), "{:?}", ids(&both));
    let [set, other] = [5, 6].map(|id| Attempt {
        id,
        says: match id {
            5 => ["NCCL_BUFFSIZE set by environment to 1048576."; 2],
            _ => ["NCCL_BUFFSIZE set by environment to 4194304."; 2],
        },
        ..HEALTHY
    });
    assert!(ids(&found(&[set, other])).is_empty());
    // In one attempt they are.
    let mixed = Attempt {
        id: 6,
        says: ["Using network IB", "Using network Socket"],
        ends: false,
        ..HEALTHY
    };
    let all = found(&[HEALTHY, mixed]);
    assert_eq!(ids(&all), ["networks-differ"]);
    assert!(
        all.verdicts[0].what.starts_with("Run 2 of 2"),
        "{}",
        all.verdicts[0].what
    );
}

#[test]
fn a_failure_of_one_attempt_explains_none_of_another() {
    let attempt = |id, last| Attempt {
        id,
        last,
        ..HEALTHY
    };
    let one = [attempt(5, &[FILES, CLOSED]), attempt(6, &[])];
    assert_eq!(ids(&found(&one)), ["limit-files"]);
    let other = [attempt(5, &[]), attempt(6, &[FILES, CLOSED])];
    let all = found(&other);
    assert_eq!(ids(&all), ["limit-files"]);
    let files: &Verdict = &all.verdicts[0];
    assert_eq!(
        (&files.ranks[..], &files.hosts[..]),
        (&[1][..], &["n1".to_owned()][..])
    );
    assert!(files.what.starts_with("Run 2 of 2"), "{}", files.what);
    let both = [attempt(5, &[FILES]), attempt(6, &[CLOSED])];
    assert_eq!(ids(&found(&both)), ["limit-files", "peer-closed"]);
}

#[test]
fn ranks_are_those_of_the_attempt() {
    // The second attempt is larger: rank 1 of the first one is on n1 in it, too.
    let log = Attempt {
        id: 5,
        last: &[FILES],
        ..HEALTHY
    }
    .log();
    let larger = Attempt { id: 6, ..HEALTHY }
        .log()
        .replace("nranks 2", "nranks 4");
    let on_other_gpus = larger.replace("901000", "1b000");
    for other in [larger, on_other_gpus] {
        for text in [log.clone() + &other, other.clone() + &log] {
            let mut pile = Pile::default();
            pile.read("job.log", text.as_bytes(), |_| {}).unwrap();
            let all = pile.finish(&Floor);
            let files = all.verdicts.iter().find(|it| it.cause.id == "limit-files");
            assert_eq!(files.unwrap().ranks, [1]);
        }
    }
}

/// A process that fails before it has a communicator is of the attempt in which others wait for it.
#[test]
fn a_failed_start_is_not_waited_for() {
    let waiting = Attempt {
        id: 5,
        ends: false,
        ..HEALTHY
    }
    .log();
    let (waits, fails): (Vec<&str>, Vec<&str>) =
        waiting.lines().partition(|it| it.starts_with("n0"));
    let fails = fails.into_iter().filter(|it| !it.contains("START"));
    let mut log: String = waits
        .into_iter()
        .chain(fails)
        .map(|it| it.to_owned() + "\n")
        .collect();
    log += "n1:51:9 [0] NCCL INFO init.cc:2200 -> 3\n";
    let healthy = Attempt { id: 6, ..HEALTHY }.log();
    for text in [log.clone(), log.clone() + &healthy, healthy + &log] {
        let mut pile = Pile::default();
        pile.read("job.log", text.as_bytes(), |_| {}).unwrap();
        let all = pile.finish(&Floor);
        assert!(ids(&all).is_empty(), "{text}{:?}", ids(&all));
    }
}

#[test]
fn calls_are_compared_within_an_attempt() {
    let calls = |id: u32, counts: [u32; 2]| {
        let line = |host: usize| {
            format!(
                "n{host}:{id}{host}:9 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count {} datatype 7 op 0 root \
                 0 comm 0x3 [nranks=2] stream 0x5\n",
                counts[host]
            )
        };
        Attempt { id, ..HEALTHY }.log() + &line(0) + &line(1)
    };
    let ids_of = |log: String| {
        let mut pile = Pile::default();
        pile.read("job.log", log.as_bytes(), |_| {}).unwrap();
        ids(&pile.finish(&Floor)).join(" ")
    };
    assert_eq!(ids_of(calls(5, [8, 8]) + &calls(6, [9, 9])), "");
    assert_eq!(
        ids_of(calls(5, [8, 8]) + &calls(6, [8, 9])),
        "size-mismatch"
    );
}

/// Ranks that a communicator does not have and addresses of no host are garbage.
#[test]
fn data_that_cannot_be_blames_nobody() {
    let report = "#0-0 (b6299d443d0e1266) INCOMPLETE\n  Missing communicator data from 1 rank\n  Rank 9 -- GPU 0 managed by \
                  process 71 on node 0.0.0.0\n";
    let table = "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n    #  in group  per comm  per node  \
                 per comm  in group\n    0         1         3         1         4         3   RUNNING  INCOMPLETE\n\n";
    let mut pile = Pile::default();
    pile.read("ras.txt", format!("{table}{report}").as_bytes(), |_| {})
        .unwrap();
    let all = pile.finish(&Floor);
    assert_nobody(&all);
    assert!(all.verdicts.iter().all(|it| it.hosts.is_empty()));
}
