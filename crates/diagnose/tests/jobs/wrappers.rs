//! Verdicts of logs that containers, clouds, launchers and pages have wrapped.

use diagnose::{Floor, Pile};

/// A rank's line, with its number in the log.
type Wrap = fn(usize, usize, &str) -> String;

fn quoted(line: &str) -> String {
    format!("\"{}\"", line.replace('"', "\"\""))
}

fn json(line: &str) -> String {
    format!(
        "\"{}\"",
        line.replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('>', "\\u003e")
    )
}

/// A time that differs from line to line.
fn time(number: usize) -> String {
    format!("2026-05-05T06:16:{:02}.{number:06}Z", number % 60)
}

const RAY: &str = "[repeated 15x across cluster] (Ray deduplicates logs by default. Set RAY_DEDUP_LOGS=0 to disable \
                   log deduplication)";

/// Wrappers by name.
const WRAPS: [(&str, Wrap); 36] = [
    ("csv", |rank, number, line| {
        format!("{},n{rank},{}", time(number), quoted(line))
    }),
    ("csv, line first", |_, number, line| {
        format!("{},{},stdout", quoted(line), time(number))
    }),
    ("csv, line in the middle", |rank, number, line| {
        format!("{},{},trainer-{rank}-{number}", time(number), quoted(line))
    }),
    ("tsv", |rank, number, line| {
        format!("{}\tn{rank}\t{}\tstderr", time(number), quoted(line))
    }),
    ("csv, unquoted", |rank, number, line| {
        format!("{},n{rank},{line},stderr", time(number))
    }),
    ("html", |_, _, line| {
        let line = line.replace('&', "&amp;").replace('"', "&quot;");
        line.replace('>', "&gt;")
            .replace('<', "&lt;")
            .replace('\'', "&#39;")
    }),
    ("ray", |rank, _, line| {
        format!("(Worker pid={rank}, ip=10.0.0.{rank}) {line}")
    }),
    ("ray, repeated", |rank, _, line| {
        format!("(Worker pid={rank}, ip=10.0.0.{rank}) {line} [repeated 5x across cluster]")
    }),
    ("ray, first repeat", |rank, _, line| {
        format!("(Worker pid={rank}) {line} {RAY}")
    }),
    ("ray, colored", |rank, _, line| {
        format!(
            "\u{1b}[36m(Worker pid={rank})\u{1b}[0m {line}\u{1b}[32m [repeated 5x across cluster]\u{1b}[0m"
        )
    }),
    ("quoted reply", |_, _, line| format!("> {line}")),
    ("quoted twice", |_, _, line| format!("> > {line}")),
    ("mpi", |rank, _, line| format!("[1,{rank}]<stdout>:{line}")),
    ("mpi, errors", |rank, _, line| {
        format!("[1,{rank}]<stderr>: {line}")
    }),
    ("prrte", |rank, _, line| {
        format!("[prterun-n7-123@1,{rank}]<stderr>: {line}")
    }),
    ("mpich", |rank, _, line| format!("[{rank}] {line}")),
    ("syslog", |rank, _, line| {
        format!("May 05 06:16:47 node{rank} slurmstepd[4711]: {line}")
    }),
    ("syslog 5424", |rank, number, line| {
        format!("<30>1 {} node{rank} job 7 - - {line}", time(number))
    }),
    ("journald", |rank, _, line| {
        format!("2026-05-05T06:16:47+0000 node{rank} python3[7]: {line}")
    }),
    ("journald, json", |rank, _, line| {
        format!(
            "{{\"_HOSTNAME\":\"node{rank}\",\"PRIORITY\":\"6\",\"MESSAGE\":{}}}",
            json(line)
        )
    }),
    ("docker", |_, number, line| {
        format!("{{\"log\":{},\"time\":\"{}\"}}", json(line), time(number))
    }),
    ("kubectl, prefix", |rank, _, line| {
        format!("[pod/trainer-{rank}/pytorch] {line}")
    }),
    ("kubectl, prefix and time", |rank, number, line| {
        format!("[pod/trainer-{rank}/pytorch] {} {line}", time(number))
    }),
    ("cri", |_, number, line| {
        format!("{} stdout F {line}", time(number))
    }),
    ("compose", |rank, _, line| {
        format!("trainer-{rank}-1  | {line}")
    }),
    ("CloudWatch", |_, number, line| {
        format!("{}\t{line}", time(number))
    }),
    ("CloudWatch, json", |_, number, line| {
        format!(
            "        {{\n  \"timestamp\": {number},\n  \"message\": {}\n        }},",
            json(line)
        )
    }),
    ("Loki", |rank, _, line| {
        format!(
            "{{\"labels\":{{\"n\":\"{rank}\"}},\"line\":{}}},",
            json(line)
        )
    }),
    ("srun -l", |rank, _, line| format!("{rank}: {line}")),
    ("srun -l, wide", |rank, _, line| {
        format!("   {rank}: {line}")
    }),
    ("torchrun", |rank, _, line| {
        format!("[default{rank}]:{line}")
    }),
    ("torchrun, ranks", |rank, _, line| {
        format!("[rank{rank}]: {line}")
    }),
    ("colors", |_, _, line| format!("\u{1b}[33m{line}\u{1b}[0m")),
    ("Windows", |_, _, line| format!("{line}\r")),
    ("Python's logging", |_, _, line| {
        format!("2026-05-05 06:16:47,123 {line}")
    }),
    ("indented", |_, _, line| line.to_owned()),
];

/// Logs: each has another reader.
fn logs() -> Vec<(&'static str, Vec<(usize, String)>)> {
    let nccl = |rank: usize, text: &str| (rank, format!("n{rank}:7{rank}:9 [0] NCCL INFO {text}"));
    let start = |rank, stage| {
        let text = format!(
            "ncclCommInitRank comm 0x7f rank {rank} nranks 3 cudaDev 0 nvmlDev 0 busId 901000 commId 0x8e9b - Init {stage}"
        );
        nccl(rank, &text)
    };
    let setting = "NCCL_BUFFSIZE set by environment to 1048576.";
    let common = |rank| {
        [
            nccl(rank, "NCCL version 2.30.7+cuda12.9"),
            nccl(rank, "Using network IB"),
            nccl(rank, setting),
        ]
    };
    let missing = (0..2).flat_map(|rank| common(rank).into_iter().chain([start(rank, "START")]));
    let warning = "[2026-05-05 06:16:47] n1:71:410 [0] transport/net_ib/p2p.cc:690 (ncclIbLogCompletionWithError) NCCL WARN \
                   NET/IB: Got completion from peer 10.0.0.1<49719> with status=IBV_WC_RETRY_EXC_ERR(12) vendor_err=129";
    let whole = (0..3).flat_map(|rank| {
        common(rank)
            .into_iter()
            .chain([start(rank, "START"), start(rank, "COMPLETE")])
    });
    let unknown = (
        2,
        "n2:72:9 [0] misc/new.cc:7 NCCL WARN Something \"new\", with 3 > 2".to_owned(),
    );
    let watchdog = "[rank3]:[E1118 20:32:23.9 ProcessGroupNCCL.cpp:629] [PG ID 2 PG GUID 9 Rank 1] ProcessGroupNCCL's watchdog \
                    got stuck for 480 seconds without making progress in monitoring enqueued collectives.";
    let last = [
        "[rank0]: Last error:",
        "[rank0]: Cuda failure 2 'out of memory'",
    ];
    let ras = "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n    #  in group  per comm  per node  \
               per comm  in group\n    0         1         3         1         4         3   RUNNING  INCOMPLETE\n\n#0-0 \
               (b6299d443d0e1266) INCOMPLETE\n  Missing communicator data from 1 rank\n  Rank 1 -- GPU 0 managed by process \
               71 on node n1\n";
    let one = |text: &str| {
        text.lines()
            .map(|it| (0, it.to_owned()))
            .collect::<Vec<_>>()
    };
    vec![
        ("a rank is missing", missing.collect()),
        (
            "a completion",
            whole
                .clone()
                .chain([(1, warning.to_owned()), unknown])
                .collect(),
        ),
        ("healthy", whole.collect()),
        ("watchdog", one(watchdog)),
        ("last error", one(&last.join("\n"))),
        ("RAS", one(ras)),
        (
            "limit",
            one(
                "--- ulimit -l\nunlimited\nn1:7:9 [0] misc/ibvwrap.cc:2 NCCL WARN Call to ibv_reg_mr_iova2 failed with error \
                       Cannot allocate memory",
            ),
        ),
    ]
}

/// What a log's verdicts say, without the lines.
fn said(log: &[u8]) -> String {
    let mut pile = Pile::default();
    pile.read("job.log", log, |_| {}).unwrap();
    of(pile)
}

fn of(pile: Pile) -> String {
    let found = pile.finish(&Floor);
    let verdicts = found.verdicts.iter().map(|it| {
        format!(
            "{} {:?} {:?} {:?} {:?} {}",
            it.cause.id, it.certainty, it.ranks, it.hosts, it.group, it.what
        )
    });
    let first = found.first_error.map(|it| (it.process, it.rank, it.place));
    format!(
        "{:#?} {first:?} {}",
        verdicts.collect::<Vec<_>>(),
        found.unknown
    )
}

#[test]
fn a_wrapped_log_has_the_verdicts_of_the_plain_one() {
    let mut wrong = Vec::new();
    for (log, lines) in logs() {
        let plain = lines
            .iter()
            .map(|it| it.1.clone() + "\n")
            .collect::<String>();
        let expected = said(plain.as_bytes());
        assert_eq!(
            expected.starts_with("[]"),
            log == "healthy",
            "{log}: {expected}"
        );
        let wrapped = WRAPS.iter().map(|(name, wrap)| {
            let rows = lines.iter().enumerate();
            let rows = rows.map(|(number, (rank, line))| wrap(*rank, number, line) + "\n");
            (*name, rows.collect::<String>())
        });
        let fenced = (
            "fence",
            format!("It fails:\n\n```shell\n{plain}```\n\n</details>\n"),
        );
        let table = lines.iter().enumerate().map(|(number, (rank, line))| {
            let cell = if line.contains([',', '"']) {
                quoted(line)
            } else {
                line.clone()
            };
            format!("{},{cell},trainer-{rank}-{number}\n", time(number))
        });
        let table = format!(
            "\u{feff}@timestamp,@message,@logStream\r\n{}",
            table.collect::<String>()
        );
        for (name, text) in wrapped.chain([fenced, ("table", table)]) {
            let found = said(text.as_bytes());
            if found != expected {
                wrong.push(format!("{log}, {name}: {found} instead of {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_log_in_utf_16_has_the_verdicts_of_the_plain_one() {
    for (log, lines) in logs() {
        let lines = lines.into_iter().map(|it| it.1 + "\r\n");
        let plain: String = lines.collect();
        let text = format!("\u{feff}{plain}");
        let units = text.encode_utf16().flat_map(u16::to_le_bytes);
        let expected = said(plain.as_bytes());
        assert_eq!(said(&units.collect::<Vec<u8>>()), expected, "{log}");
        let units = text.encode_utf16().flat_map(u16::to_be_bytes);
        let units: Vec<u8> = units.collect();
        let mut head = tar::Header::new_gnu();
        head.set_size(units.len() as u64);
        let mut packed = tar::Builder::new(Vec::new());
        packed
            .append_data(&mut head, "job.log", &units[..])
            .unwrap();
        let packed = packed.into_inner().unwrap();
        let mut pile = Pile::default();
        diagnose::archive::file(&packed, "job.tar", &mut pile, &mut 8).unwrap();
        assert_eq!(of(pile), expected, "{log}");
    }
}
