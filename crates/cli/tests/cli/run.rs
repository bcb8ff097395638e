//! `topo run` on this machine: threads, processes, plans, mistakes.

use super::{FAILED, ok, refused, run};

/// What every run here has: few sizes, few launches.
const SHORT: [&str; 6] = ["-n", "3", "-w", "1", "-f", "64"];

fn short<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [arguments, &SHORT[..]].concat()
}

#[test]
fn every_collective_is_right_on_threads() {
    for collective in [
        "all-reduce",
        "all-gather",
        "reduce-scatter",
        "broadcast",
        "reduce",
        "all-to-all",
        "gather",
        "scatter",
        "send-recv",
    ] {
        let said = ok(&short(&["run", "--ranks", "3", collective, "-e", "1M"]));
        assert!(said.out.contains("every element is right"), "{}", said.out);
        assert!(said.out.starts_with(collective), "{}", said.out);
    }
}

#[test]
fn processes_are_right_too() {
    for arguments in [
        &["all-reduce", "--op", "avg", "--type", "bf16"][..],
        &["all-reduce", "--algorithm", "ring", "--protocol", "ll128"],
        &[
            "all-reduce",
            "--algorithm",
            "two-phase-mesh",
            "--transfer",
            "direct",
        ],
        &["all-reduce", "--algorithm", "nvls", "--op", "max"],
        &["reduce-scatter", "--algorithm", "nvls"],
        &["all-gather", "--type", "int8"],
        &["broadcast", "--root", "2", "--reply"],
        &["all-to-all", "--algorithm", "bruck"],
        &["reduce", "--op", "mulsum", "--type", "i64", "--root", "1"],
        &["send-recv"],
    ] {
        let all = [
            &["run", "--ranks", "3", "--processes", "-e", "1M"],
            arguments,
        ]
        .concat();
        let said = ok(&short(&all));
        assert!(said.out.contains("every element is right"), "{}", said.out);
    }
}

/// What serves each collective; a mesh can be direct too.
const WAYS: [(&str, &[&str]); 9] = [
    (
        "all-reduce",
        &[
            "ring",
            "tree",
            "reduce-broadcast",
            "halving-doubling",
            "mesh",
            "two-phase-mesh",
        ],
    ),
    (
        "all-gather",
        &["ring", "bruck", "mesh", "recursive-doubling"],
    ),
    ("reduce-scatter", &["ring", "recursive-halving", "mesh"]),
    ("broadcast", &["ring", "tree", "mesh"]),
    ("reduce", &["ring", "tree", "mesh"]),
    ("all-to-all", &["mesh", "bruck"]),
    ("gather", &["mesh", "tree"]),
    ("scatter", &["mesh", "tree"]),
    ("send-recv", &["mesh"]),
];

#[test]
fn a_sampled_matrix_of_processes_is_right() {
    const TYPES: [&str; 10] = [
        "i8", "u8", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64",
    ];
    const OPERATIONS: [&str; 6] = ["sum", "prod", "min", "max", "avg", "mulsum"];
    let mut random = 2_026_u64;
    let mut one_of = |choices: usize| {
        // The high bits of Knuth's generator.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % choices
    };
    // Each collective four times, with whatever comes.
    for turn in 0..36 {
        let (collective, algorithms) = WAYS[turn % WAYS.len()];
        let algorithm = algorithms[one_of(algorithms.len())];
        let ranks = ["1", "2", "3", "4", "5", "7"][one_of(6)];
        let operation = OPERATIONS[one_of(OPERATIONS.len())];
        let mut arguments = vec!["run", "--processes", "--ranks", ranks, collective];
        arguments.extend(["--algorithm", algorithm, "--type", TYPES[one_of(10)]]);
        if matches!(collective, "all-reduce" | "reduce-scatter" | "reduce") {
            arguments.extend(["--op", operation]);
        }
        let may_be_direct =
            algorithm.ends_with("mesh") && collective != "send-recv" && operation != "mulsum";
        if may_be_direct && one_of(2) == 0 {
            arguments.extend(["--transfer", "direct"]);
            if collective == "all-to-all" {
                arguments.push("--no-in-place");
            }
        } else {
            let protocol = ["ll", "ll128", "simple"][one_of(3)];
            arguments.extend(["--transfer", "fifo", "--protocol", protocol]);
        }
        // Sizes that divide nothing.
        arguments.extend([
            "-b",
            ["1", "24", "77"][one_of(3)],
            "-e",
            "700001",
            "-f",
            "13",
        ]);
        arguments.extend(["-n", "3", "-w", "1"]);
        let said = ok(&arguments);
        let right = said.out.contains("every element is right");
        assert!(right, "{}:\n{}", arguments.join(" "), said.out);
    }
}

#[test]
fn a_topology_is_planned_and_its_choice_stands_beside() {
    let said = ok(&short(&[
        "run",
        "topologies/dgx-h100",
        "all-reduce",
        "-e",
        "1M",
    ]));
    assert!(said.out.contains("8 threads"), "{}", said.out);
    assert!(said.out.contains("dgx-h100"), "{}", said.out);
    // Words may stand on different lines.
    let words: Vec<&str> = said.out.split_whitespace().collect();
    assert!(words.join(" ").contains("P2P for 8 of 8"), "{}", said.out);
    // What NCCL would take on the GPUs.
    assert!(said.out.contains("Ring LL"), "{}", said.out);
}

#[test]
fn json_has_a_row_for_each_size() {
    let said = ok(&short(&[
        "run",
        "--ranks",
        "2",
        "all-gather",
        "-e",
        "1M",
        "--json",
    ]));
    let value: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let rows = value["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 3);
    for row in rows {
        for placement in ["out_of_place", "in_place"] {
            let timing = &row[placement];
            assert_eq!(timing["wrong"], 0);
            assert!(timing["time_us"].as_f64().unwrap() > 0.0);
            let latency = |name: &str| timing["latency_us"][name].as_f64().unwrap();
            assert!(0.0 < latency("p50") && latency("p50") <= latency("p99"));
            assert!(latency("p99") <= latency("max"));
            // As many as are timed in a row.
            assert_eq!(latency("launches"), 3.0);
        }
    }
}

#[test]
fn mistakes_are_explained() {
    for (arguments, expected) in [
        (&["run", "all-reduce"][..], "--ranks N"),
        (
            &["run", "--ranks", "2", "all-reduse"],
            "did you mean all-reduce",
        ),
        (
            &["run", "--ranks", "2", "all-reduce", "--root", "2"],
            "no such rank",
        ),
        (
            &["run", "--ranks", "2", "all-reduce", "--algorithm", "rings"],
            "ring tree",
        ),
        (
            &["run", "--ranks", "2", "all-to-all", "--algorithm", "tree"],
            "bruck",
        ),
        (
            &["run", "--ranks", "2", "reduce", "--reply"],
            "for broadcast",
        ),
        (
            &["run", "--ranks", "2", "all-reduce", "-b", "2M", "-e", "1M"],
            "more than",
        ),
        (
            &["run", "topologies/dgx-h100", "all-reduce", "--ranks", "2"],
            "without --ranks",
        ),
        (&["run", "--member"], "standard input"),
    ] {
        let said = run(arguments);
        assert_eq!(said.status, Some(FAILED), "{arguments:?}");
        assert!(said.err.contains(expected), "{arguments:?}: {}", said.err);
    }
}

#[test]
fn a_killed_process_ends_the_others_with_its_name() {
    // The longest timeout, so that an end within the test's patience is not the timeout's.
    let arguments = [
        "run",
        "--ranks",
        "3",
        "--processes",
        "all-reduce",
        "-b",
        "1M",
        "-e",
        "1M",
    ];
    let slow = ["-n", "1000000", "--timeout", "3600"];
    let child = super::topo()
        .args(arguments)
        .args(slow)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Until both of the others are there, and this is one of them.
    let victim = loop {
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let text = std::fs::read_to_string(children).unwrap();
        let pids: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        if let [_, second] = pids.as_slice() {
            break second.clone();
        }
        std::thread::yield_now();
    };
    let killed = std::process::Command::new("kill")
        .args(["-9", &victim])
        .status();
    assert!(killed.unwrap().success());
    let said = super::said(child.wait_with_output().unwrap());
    assert_eq!(said.status, Some(FAILED));
    assert!(said.err.contains("rank 2"), "{}", said.err);
}

/// What is missing, and how to go on; on a machine with a GPU, that it runs there.
#[test]
fn gpus_are_used_or_their_absence_is_explained() {
    let arguments = [
        "run",
        "--ranks",
        "2",
        "all-reduce",
        "--backend",
        "cuda",
        "-e",
        "64",
    ];
    let said = run(&arguments);
    if said.status == Some(0) {
        assert!(said.out.starts_with("GPU 0: "), "{}", said.out);
        return;
    }
    let said = refused(&arguments);
    assert!(said.err.contains("--backend cpu"), "{}", said.err);
    let test = refused(&["gpu-test"]);
    assert!(test.err.contains("nothing was run"), "{}", test.err);
    let trace = refused(&["run", "--ranks", "2", "all-reduce", "--trace", "t.json"]);
    assert!(trace.err.contains("--backend cuda"), "{}", trace.err);
}
