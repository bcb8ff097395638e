//! `topo run` on this machine.

use super::{FAILED, ok, refused, run};

/// The algorithms of each collective.
const ALGORITHMS: [(&str, &[&str]); 9] = [
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
    // Each collective four times.
    for turn in 0..36 {
        let (collective, algorithms) = ALGORITHMS[turn % ALGORITHMS.len()];
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
        // Odd sizes.
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
fn json_has_a_row_for_each_size() {
    let run = ["run", "--ranks", "2", "all-gather", "-e", "1M", "--json"];
    let said = ok(&[&run[..], &["-n", "3", "-w", "1", "-f", "64"]].concat());
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
            // The latencies are those of the timed launches.
            assert_eq!(latency("launches"), 3.0);
        }
    }
}

#[test]
fn a_killed_process_is_reported_by_the_others() {
    let run = [
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
    // The longest timeout, so that it is not the timeout that ends the job.
    let slow = ["-n", "1000000", "--timeout", "3600"];
    let child = super::topo()
        .args(run)
        .args(slow)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // The second child is rank 2.
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

/// Without a GPU the error names what is missing and what to do instead.
#[test]
fn gpus_are_used_or_their_absence_is_explained() {
    let here = ["run", "--ranks", "2", "all-reduce", "-e", "64"];
    let arguments = [&here[..], &["--backend", "cuda"]].concat();
    let said = run(&arguments);
    if said.status == Some(0) {
        assert!(said.out.starts_with("GPU 0: "), "{}", said.out);
        return;
    }
    let said = refused(&arguments);
    assert!(said.err.contains("--backend cpu"), "{}", said.err);
    let test = refused(&["gpu-test"]);
    assert!(test.err.contains("nothing was run"), "{}", test.err);
    let trace = refused(&[&here[..], &["--trace", "t.json"]].concat());
    assert!(trace.err.contains("--backend cuda"), "{}", trace.err);
}
