//! `topo run` on this machine.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{FAILED, ok, refused, run, said, topo};

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

/// Draws this number of runs, the collectives in turn.
fn sampled_runs_are_right(runs: usize) {
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
    for turn in 0..runs {
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
fn a_sampled_run_of_each_collective_is_right() {
    sampled_runs_are_right(ALGORITHMS.len());
}

mod deep {
    #[test]
    #[ignore = "deep: cargo xtask deep"]
    fn a_sampled_matrix_of_processes_is_right() {
        // Each collective four times.
        super::sampled_runs_are_right(36);
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

/// A calibration is kept for this machine, found again, and can be left unused. A file that is no
/// profile is reported and not used.
#[test]
fn a_calibration_is_kept_and_used() {
    let cache = tempfile::tempdir().unwrap();
    let with = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = topo();
        command.args(arguments).env("XDG_CACHE_HOME", cache.path());
        let said = said(command.envs(variables.iter().copied()).output().unwrap());
        assert_eq!(said.status, Some(0), "{arguments:?}: {}", said.err);
        said
    };
    let calibrate = ["run", "--calibrate", "--ranks", "2", "--sizes", "64,8,8"];
    let calibrate = [&calibrate[..], &["--buffers", "own", "--seconds", "0.1"]].concat();
    let page = with(&calibrate, &[]).out;
    assert!(page.contains("before   the built-in profile"), "{page}");
    assert!(page.contains("kept in "), "{page}");
    let folder = cache.path().join("topo");
    let kept = || std::fs::read_dir(&folder).unwrap();
    assert_eq!(kept().count(), 1);
    let again = with(&calibrate, &[]).out;
    assert!(
        again.contains("before   the profile `calibrated`"),
        "{again}"
    );
    let built_in = [("TOPO_COST_PROFILE", "built-in")];
    let again = with(&calibrate, &built_in).out;
    assert!(again.contains("before   the built-in profile"), "{again}");
    // The best choice is among all, so it is no slower than the one that is taken.
    let run = [
        "run",
        "all-reduce",
        "--ranks",
        "2",
        "--best",
        "--json",
        "-e",
        "64",
    ];
    let run = [&run[..], &["-n", "3", "--time", "1"]].concat();
    let said = with(&run, &[]);
    let value: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    for row in value["rows"].as_array().unwrap() {
        assert!(row["best"]["factor"].as_f64().unwrap() >= 1.0, "{row}");
    }
    assert!(!said.err.contains("cost profile"), "{}", said.err);
    // Ranks of which only one has a kept profile choose alike.
    let meeting = format!("file:{}", cache.path().join("meeting").display());
    let rank = |rank: &str, cache: &std::path::Path| {
        let mut command = topo();
        command.args(["run", "all-reduce", "-e", "64K", "-n", "3"]);
        command.args(["--rank", rank, "--world", "2", "--rendezvous", &meeting]);
        command.env("XDG_CACHE_HOME", cache).stdout(Stdio::null());
        command.spawn().unwrap()
    };
    let nothing_kept = cache.path().join("nothing");
    for mut rank in [rank("1", &nothing_kept), rank("0", cache.path())] {
        assert!(rank.wait().unwrap().success());
    }
    let file = kept().next().unwrap().unwrap().path();
    std::fs::write(file, "format = 3").unwrap();
    let said = with(&run, &[]);
    assert!(
        said.err.contains("the kept CPU cost profile is not used"),
        "{}",
        said.err
    );
}

/// Ten thousand sizes, which take seconds.
const MANY_SIZES: [&str; 8] = ["-b", "8", "-i", "8", "-e", "80000", "-n", "1"];

/// The ways to start two ranks; the last one, that of rank 0, prints.
fn commands_of_two_ranks(folder: &std::path::Path) -> [Vec<Command>; 3] {
    let with = |arguments: &[&str]| {
        let mut command = topo();
        command
            .args(["run", "all-reduce"])
            .args(MANY_SIZES)
            .args(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        command
    };
    let meeting = format!("file:{}", folder.join("meeting").display());
    let rank = |rank| with(&["--rank", rank, "--world", "2", "--rendezvous", &meeting]);
    [
        vec![with(&["--ranks", "2"])],
        vec![with(&["--ranks", "2", "--processes"])],
        vec![rank("1"), rank("0")],
    ]
}

#[test]
fn a_killed_run_has_printed_its_rows() {
    let folder = tempfile::tempdir().unwrap();
    for mut commands in commands_of_two_ranks(folder.path()) {
        let mut ranks: Vec<_> = commands.iter_mut().map(|it| it.spawn().unwrap()).collect();
        let printing = ranks.last_mut().unwrap();
        let mut page = BufReader::new(printing.stdout.take().unwrap());
        let mut text = String::new();
        // The head, the header, and two sizes with and without a second buffer.
        while text.lines().filter(|line| line.ends_with('0')).count() < 2 {
            assert!(page.read_line(&mut text).unwrap() > 0, "{text}");
        }
        assert!(printing.try_wait().unwrap().is_none(), "{text}");
        printing.kill().unwrap();
        page.read_to_string(&mut text).unwrap();
        for mut rank in ranks {
            // The others end by themselves.
            rank.wait().unwrap();
        }
        assert!(text.starts_with("all-reduce of 2 "), "{text}");
        assert!(text.ends_with('\n'), "{text}");
        let (_, table) = text.split_once("pred.\n").unwrap();
        assert!(!table.contains('#'), "{text}");
        let width = 14;
        for line in table.lines() {
            let cells = line.split_whitespace().count();
            assert!(cells == width || cells == width - 1, "{line}\nin {text}");
        }
    }
}

#[test]
fn a_killed_run_leaves_no_part_of_its_json() {
    let mut child = topo()
        .args(["run", "all-reduce", "--ranks", "2", "--json"])
        .args(MANY_SIZES)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // It works as soon as it has threads of its ranks.
    let tasks = format!("/proc/{}/task", child.id());
    let until = Instant::now() + Duration::from_secs(600);
    while std::fs::read_dir(&tasks).unwrap().count() < 3 {
        assert!(Instant::now() < until, "no ranks are started");
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    assert_eq!(said(child.wait_with_output().unwrap()).out, "");
}

/// Each row has all its figures at every width, in several lines where one is too short.
#[test]
fn the_table_fits_the_page() {
    for (width, lines) in [("60", 5), ("80", 4), ("120", 2), ("200", 1)] {
        let mut command = topo();
        command.args([
            "run",
            "topologies/dgx-h100",
            "all-gather",
            "-b",
            "1M",
            "-e",
            "1M",
        ]);
        let output = command
            .args(["-n", "1", "-w", "0"])
            .env("COLUMNS", width)
            .output();
        let said = said(output.unwrap());
        let (head, rest) = said.out.split_once("\n\n").unwrap();
        let (table, summary) = rest.split_once("\n\n").unwrap();
        let header = usize::div_ceil(lines, 2);
        assert_eq!(table.lines().count(), header + lines, "{table}");
        for line in [head, table, summary].into_iter().flat_map(str::lines) {
            assert!(line.chars().count() <= width.parse().unwrap(), "{line}");
        }
        let both = if lines == 1 { 1 } else { 2 };
        assert_eq!(table.matches("1048576").count(), both, "{table}");
        // The plan's choice, once for both placements.
        assert_eq!(table.matches("Ring LL").count(), 1, "{table}");
    }
}

/// The mean over the rows, with and without a second buffer.
#[test]
fn the_average_is_that_of_nccl_tests() {
    let said = ok(&[
        "run",
        "--ranks",
        "2",
        "all-reduce",
        "-b",
        "1M",
        "-e",
        "4M",
        "-n",
        "2",
    ]);
    let rows = said
        .out
        .lines()
        .filter(|line| line.contains(" out ") || line.contains(" in  "));
    let busbw = rows.map(|line| {
        let cells: Vec<&str> = line.split_whitespace().collect();
        cells[11].parse::<f64>().unwrap()
    });
    let busbw: Vec<f64> = busbw.collect();
    assert_eq!(busbw.len(), 6, "{}", said.out);
    let last = said.out.lines().next_back().unwrap();
    let average = last.strip_prefix("# Avg bus bandwidth    : ").unwrap();
    let average: f64 = average.parse().unwrap();
    let expected = busbw.iter().sum::<f64>() / busbw.len() as f64;
    assert!((average - expected).abs() < 0.01, "{}", said.out);
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
    assert!(said.err.contains("the CPU backend"), "{}", said.err);
    let test = refused(&["gpu-test"]);
    assert!(test.err.contains("nothing was run"), "{}", test.err);
    let trace = refused(&[&here[..], &["--trace", "t.json"]].concat());
    assert!(trace.err.contains("--backend cuda"), "{}", trace.err);
}
