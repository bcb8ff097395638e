//! `topo expect --run` on a phantom machine: programs that measure well, too little, fail, hang, or
//! are not there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;
use testkit::{FakeMachine, Machine};

use crate::machine::Phantom;

/// A DGX H100 whose files Linux lays out, with programs of nccl-tests and nvbandwidth in the
/// language of the shell.
struct Node {
    phantom: Phantom,
    status: i32,
    errors: String,
    report: Value,
}

/// What prints the table of a collective among 8 ranks: bytes, time (µs) and bandwidths (GB/s).
fn nccl_tests(name: &str, row: &str) -> String {
    let gpu = |rank: usize| {
        let bus = ["1b", "43", "52", "61", "9d", "c3", "d1", "df"][rank];
        format!(
            "#  Rank  {rank} Group  0 Pid   7001 on       n1 device  {rank} [0000:{bus}:00] NVIDIA H100 80GB HBM3\n"
        )
    };
    let gpus: String = (0..8).map(gpu).collect();
    format!(
        "cat <<'END'\n# Collective test starting: {name}\n# nThread 1 nGpus 8\n# Using devices\n{gpus}\
         #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n\
         {row}\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 100.0\n#\nEND\n"
    )
}

/// What nvbandwidth prints of copies between 8 GPUs, of which one has another bandwidth, GB/s.
fn copies(odd: f64) -> String {
    let mut text = "nvbandwidth Version: v0.8\n\nRunning device_to_device_memcpy_read_ce.\n\
                    memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n"
        .to_owned();
    let header: String = (0..8).map(|it| format!("{it:>10}")).collect();
    text += &format!("  {header}\n");
    for row in 0..8 {
        let cells: String = (0..8)
            .map(|column| match (row, column) {
                (row, column) if row == column => format!("{:>10}", "N/A"),
                (5, _) | (_, 5) => format!("{odd:>10.2}"),
                _ => format!("{:>10.2}", 395.0),
            })
            .collect();
        text += &format!(" {row} {cells}\n");
    }
    format!(
        "cat <<'END'\n{text}\nSUM device_to_device_memcpy_read_ce {:.2}\nEND\n",
        56.0 * 395.0
    )
}

/// Runs it with these programs, and these options and variables.
fn run(programs: &[(&str, String)], options: &[&str], variables: &[(&str, &str)]) -> Node {
    let machine = Machine::all().unwrap();
    let machine = machine
        .into_iter()
        .find(|it| it.name == "dgx-h100")
        .unwrap();
    let phantom = Phantom::new("dgx-h100", &[]);
    let (tree, tools) = (phantom.path("tree"), phantom.path("tools"));
    fs::create_dir(&tree).unwrap();
    fs::create_dir(&tools).unwrap();
    let fake = FakeMachine::of(&machine.document().unwrap()).unwrap();
    fake.write(&tree).unwrap();
    for (name, text) in programs {
        let file = tools.join(name);
        fs::write(&file, format!("#!/bin/sh\n{text}")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command: Command = phantom.topo();
    command.args(["expect", "--run", "--json", "--driver", "--sysfs-root"]);
    command
        .arg(&tree)
        .arg("-o")
        .arg(phantom.path("out"))
        .args(options);
    command.env("PATH", format!("{}:/usr/bin:/bin", tools.display()));
    command.envs(variables.iter().copied());
    let ended = command.output().unwrap();
    Node {
        phantom,
        status: ended.status.code().unwrap(),
        errors: String::from_utf8(ended.stderr).unwrap(),
        report: serde_json::from_slice(&ended.stdout).unwrap_or_default(),
    }
}

impl Node {
    /// Checks that fail or are unknown, but not those that only root can make.
    fn open(&self) -> Vec<(&str, &str)> {
        let checks = self.report["checks"].as_array().unwrap().iter();
        checks
            .map(|it| (it["id"].as_str().unwrap(), it["verdict"].as_str().unwrap()))
            .filter(|it| ["fail", "unknown"].contains(&it.1) && it.0 != "T006")
            .collect()
    }
}

const ALL_REDUCE: &str =
    "8589934592 2147483648 float sum -1 34126.3 251.71 440.50 0 34126.3 251.71 440.50 0";
const SLOW: &str =
    "8589934592 2147483648 float sum -1 64489.0 133.20 233.10 0 64489.0 133.20 233.10 0";
const ALL_GATHER: &str =
    "8589934592 268435456 float none -1 21474.8 400.00 350.00 0 21474.8 400.00 350.00 0";

fn good(all_reduce: &str, odd: f64) -> [(&'static str, String); 4] {
    [
        ("all_reduce_perf", nccl_tests("all_reduce_perf", all_reduce)),
        ("all_gather_perf", nccl_tests("all_gather_perf", ALL_GATHER)),
        (
            "reduce_scatter_perf",
            nccl_tests("reduce_scatter_perf", &ALL_GATHER.replace("none", "sum")),
        ),
        ("nvbandwidth", copies(odd)),
    ]
}

#[test]
fn a_healthy_node_passes() {
    let node = run(&good(ALL_REDUCE, 394.0), &[], &[]);
    assert_eq!(node.open(), [], "{}", node.errors);
    for name in [
        "report.txt",
        "report.md",
        "report.html",
        "report.xml",
        "topology.xml",
        "links.txt",
        "all-reduce.txt",
    ] {
        let file = node.phantom.path("out").join(name);
        assert!(fs::metadata(file).is_ok_and(|it| it.len() > 100), "{name}");
    }
    let html = fs::read_to_string(node.phantom.path("out/report.html")).unwrap();
    assert!(html.contains("<svg") && html.contains("440.5"), "{html}");
}

#[test]
fn a_slow_collective_or_link_fails() {
    let node = run(&good(SLOW, 394.0), &[], &[]);
    assert_eq!(node.status, 1, "{}", node.errors);
    assert_eq!(node.open(), [("all-reduce-8G", "fail")]);
    let node = run(&good(ALL_REDUCE, 150.0), &[], &[]);
    assert_eq!(node.status, 1, "{}", node.errors);
    let open = node.open();
    assert!(open.len() == 1 && open[0].1 == "fail", "{open:?}");
}

/// What hangs, fails, or is not there, is unknown; the rest is measured.
#[test]
fn what_cannot_be_measured_is_unknown() {
    let mut programs = good(ALL_REDUCE, 394.0);
    programs[0].1 = "sleep 1000".to_owned();
    programs[1].1 =
        "echo '# nThread 1 nGpus 8'; echo 'node1: Test NCCL failure common.cu:1002'; exit 3"
            .to_owned();
    programs[3].1 = "exit 0".to_owned();
    let node = run(&programs, &["--timeout", "15"], &[]);
    assert_eq!(node.status, 3, "{}", node.errors);
    let unknown = |id| (id, "unknown");
    assert_eq!(
        node.open(),
        ["all-reduce", "all-gather", "links"].map(unknown)
    );
    let text = node.report.to_string();
    assert!(
        text.contains("did not end within 15 s") && text.contains("common.cu:1002"),
        "{text}"
    );
    let nowhere = node.phantom.path("nowhere").display().to_string();
    let node = run(&[], &["--tests", &nowhere, "--timeout", "1"], &[]);
    assert_eq!(node.status, 3, "{}", node.errors);
    let open = node.open();
    let ids: Vec<&str> = open.iter().map(|it| it.0).collect();
    assert!(
        ids.starts_with(&["all-reduce", "all-gather", "reduce-scatter"]),
        "{open:?}"
    );
}

/// Where nothing else is installed, this program measures; nothing is expected of its kernels.
#[test]
fn this_program_measures_where_no_other_is_there() {
    let programs = [("python3", "exit 1".to_owned())];
    let node = run(&programs, &["--end", "64"], &[]);
    let failures = node.report["programs"].as_array().unwrap().iter();
    let failures: Vec<&Value> = failures.map(|it| &it["failure"]).collect();
    assert_eq!(failures, [&Value::Null; 4], "{}", node.errors);
    // Copies of a phantom are as fast as the processors are idle.
    let open = node.open();
    let failed = |it: &&(&str, &str)| it.1 == "fail" && !it.0.starts_with("links-");
    assert_eq!(open.iter().find(failed), None, "{}", node.errors);
    assert!(open.contains(&("all-reduce-64", "unknown")), "{open:?}");
    assert_eq!(node.report["results"]["tables"][0]["tool"], "topo run");
}

/// Of the ranks that a launcher started, the first of all tells of collectives, with a GPU each.
#[test]
fn ranks_of_a_launcher_measure_together() {
    let checked = |text: &str| format!("[ \"$7 $8\" = '-g 1' ] || exit 9\n{text}");
    let programs = good(ALL_REDUCE, 394.0).map(|(name, text)| match name {
        "nvbandwidth" => (name, text),
        _ => (name, checked(&text)),
    });
    let ranks = |rank, local| {
        [
            ("OMPI_COMM_WORLD_RANK", rank),
            ("OMPI_COMM_WORLD_SIZE", "8"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", local),
        ]
    };
    let first = run(&programs, &[], &ranks("0", "0"));
    assert_eq!(first.open(), [], "{}", first.errors);
    let other = run(&programs, &[], &ranks("5", "5"));
    assert_eq!(
        (other.status, &other.report),
        (0, &Value::Null),
        "{}",
        other.errors
    );
    assert!(!other.phantom.path("out").exists());
    // The first rank of the second host reads and judges it, and its links.
    let second = run(&programs, &[], &ranks("6", "0"));
    assert_eq!(second.open(), [], "{}", second.errors);
    assert_eq!(second.report["results"], Value::Null);
}
