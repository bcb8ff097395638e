//! `topo gpu-test` on phantom machines: the whole of it, and rehearsals with planted faults.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::machine::Phantom;

/// Runs the test with these arguments, without warm clocks.
fn run(phantom: &Phantom, arguments: &[&str]) -> Output {
    let mut command = phantom.topo();
    command.args(["gpu-test", "--warm", "0"]).args(arguments);
    command.output().unwrap()
}

/// Runs the test on a tray, which must be right, as page and as JSON. Returns the page.
fn right_page(arguments: &str) -> (Phantom, String) {
    let phantom = Phantom::new("gb200-nvl72-tray", &["fabric whole"]);
    let folder = phantom.path("results").display().to_string();
    let arguments: Vec<&str> = arguments.split(' ').chain([&*folder]).collect();
    let output = run(&phantom, &arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    let page = fs::read_to_string(phantom.path("results/gpu-test.md")).unwrap();
    assert!(output.status.success(), "{page}\n{errors}");
    let kept = fs::read_to_string(phantom.path("results/gpu-test.json")).unwrap();
    assert_eq!(kept, String::from_utf8_lossy(&output.stdout));
    (phantom, page)
}

/// Parts that ask for facts.
const PARTS_OF_SILICON: usize = 8;

/// A section, as page and as JSON.
#[test]
fn a_section() {
    let (phantom, page) = right_page("--cases 1 --end 1K --ranks 2 --only correctness --json -o");
    assert!(page.contains("| 2 GPUs | right |"), "{page}");
    assert_eq!(phantom.report().problems, [] as [&str; 0]);
}

/// The whole of `topo gpu-test`, on small sizes.
#[test]
#[ignore = "deep: cargo xtask deep"]
fn deep_on_small_sizes() {
    let (phantom, page) = right_page("--cases 1 --end 1K --ranks 2,5 --json -o");
    let rows = |outcome: &str| {
        let outcome = format!("| {outcome} |");
        page.lines().filter(|line| line.contains(&outcome)).count()
    };
    // Facts, cases, transports, 3 collectives × 8 variants × 2 kinds of ranks, one GPU.
    assert_eq!(rows("right"), PARTS_OF_SILICON + 4 + 22 + 48 + 3, "{page}");
    assert!(
        page.contains("| 5 GPUs | not run | this machine has 4 GPUs |"),
        "{page}"
    );
    assert!(page.contains("no MPS runs"), "{page}");
    // Each collective has a figure for each variant.
    assert_eq!(
        page.matches("| times of 2 ranks | right | 15 figures |")
            .count(),
        1
    );
    let report = phantom.report();
    // What any thread's question does to captures is noted.
    let of_captures = |it: &&String| {
        !it.contains("a capture forbids this thread") && !it.contains("made the capture invalid")
    };
    let problems: Vec<&String> = report.problems.iter().filter(of_captures).collect();
    assert_eq!(problems, [] as [&str; 0]);
    assert!(report.calls.contains_key("cuMemcpyDtoDAsync_v2"));
}

/// What a machine file plants, the part that finds it, and the words of the page.
const FACTS: [(&[&str], &str, &str); 6] = [
    (
        &["queue 16"],
        "queue",
        "held stream takes: 15 collectives, needed: ≥ 64",
    ),
    (
        &["queue 16"],
        "queue",
        "before one blocks: 15 launches, needed: ≥ 64",
    ),
    (
        &["queue 16", "launch-lock yes"],
        "queue",
        "cuEventQuery, with 15 collectives in flight: blocks, needed: returns",
    ),
    (
        &["overlap no"],
        "overlap",
        "two streams: 0 meetings, needed: ≥ 1",
    ),
    (
        &["fault 0 1 wrong"],
        "lines",
        "LL lines in GPU memory, wrong or old: ",
    ),
    (
        &["fault 0 1 wrong"],
        "messages",
        "messages of 64 threads, wrong or old: ",
    ),
];

/// A part that asks for facts is red if collectives cannot rely on the answer.
#[test]
fn wrong_facts_are_found() {
    for (lines, part, words) in FACTS {
        let phantom = Phantom::new("dgx-h100", lines);
        let arguments = "--cases 1 --timeout 10 --only silicon --match";
        let arguments: Vec<&str> = arguments.split(' ').chain([part]).collect();
        let output = run(&phantom, &arguments);
        let page = String::from_utf8_lossy(&output.stdout);
        let failed = page.lines().find(|line| line.contains("| **FAILED** |"));
        assert!(
            failed.is_some_and(|line| line.contains(words)),
            "{lines:?}: {page}"
        );
        assert_eq!(output.status.code(), Some(1), "{lines:?}");
    }
}

/// Facts without a need fail nothing: a driver whose allocations wait for kernels is as documented.
#[test]
fn noted_facts_fail_nothing() {
    let phantom = Phantom::new("dgx-h100", &["calls-wait yes"]);
    let arguments = "--cases 1 --only silicon --match queue";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let output = run(&phantom, &arguments);
    let page = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{page}");
    let row = "| cuMemAlloc, with a full queue | blocks | - | noted |";
    assert!(page.contains(row), "{page}");
}

/// What the driver says of mappings is as it documents.
#[test]
fn facts_of_mappings() {
    let phantom = Phantom::new("dgx-h100", &[]);
    let output = run(&phantom, &["--only", "silicon", "--match", "mappings"]);
    let page = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{page}");
    for row in [
        "| a mapping by cuMemGetAddressRange | 4 MiB | 4 | as needed |",
        "| its attribute RANGE_SIZE | 16 MiB | - | noted |",
        "| addresses whose handle is that of their mapping | 4 addresses | ≥ 4 | as needed |",
        "| handles of two mappings and of other memory in place of one | 3 handles | ≥ 3 | as needed |",
        "| buffer ids of these | 1 ids | - | noted |",
        "| a fill across two mappings | 131072 bytes | 131072 | as needed |",
        "| least granularity of a multicast | 2 MiB | - | noted |",
        "| recommended granularity of a multicast | 512 MiB | - | noted |",
    ] {
        assert!(page.contains(row), "{row}: {page}");
    }
    assert_eq!(phantom.report().problems, [] as [&str; 0]);
}

/// A program in place of compute-sanitizer, which runs what it is to look at. It exits with
/// `$FOUND` if that is set, as the tool does if it found something.
const SANITIZER: &str = r#"#!/bin/sh
[ "$1" = --version ] && exit
while [ "$1" != --log-file ]; do shift; done
echo "========= ERROR SUMMARY: some" > "$2"
shift 2
[ -n "$FOUND" ] || exec "$@"
"$@" && exit $FOUND
"#;

fn with_sanitizer(phantom: &Phantom) -> String {
    let tool = phantom.path("compute-sanitizer");
    fs::write(&tool, SANITIZER).unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o700)).unwrap();
    let folder = tool.parent().unwrap().display().to_string();
    format!("{folder}:{}", std::env::var("PATH").unwrap_or_default())
}

/// What racecheck finds may be a false alarm.
#[test]
fn findings_of_the_sanitizer() {
    let phantom = Phantom::new("gh200", &[]);
    let path = with_sanitizer(&phantom);
    let sanitizer = |tool: &str| {
        let mut command = phantom.topo();
        command.args("gpu-test --only sanitizer --cases 1 --match".split(' '));
        command.arg(tool).env("PATH", &path).env("FOUND", "9");
        let output = command.output().unwrap();
        let page = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), page)
    };
    let (status, page) = sanitizer("racecheck");
    assert_eq!(status, Some(0), "{page}");
    assert!(
        page.contains("| noted |") && page.contains("1 noted"),
        "{page}"
    );
    let (status, page) = sanitizer("memcheck");
    assert_eq!(status, Some(1), "{page}");
    assert!(page.contains("| **FAILED** | ERROR SUMMARY"), "{page}");
}

/// A kind of fault, and what the page may say of it.
const FAULTS: [(&str, &[&str]); 7] = [
    ("address", &["CUDA_ERROR_ILLEGAL_ADDRESS"]),
    ("trap", &["CUDA_ERROR_LAUNCH_FAILED"]),
    ("hang", &["did not end within", "waited"]),
    // Where peer access is tried, a store that changes nothing is one that does not arrive.
    ("wrong", &["wrong", "nothing arrives"]),
    ("late", &["CUDA_ERROR_ILLEGAL_ADDRESS"]),
    ("kill", &["signal: 9"]),
    ("stop", &["did not end within", "waited"]),
];

/// Faults that only a deadline ends.
const WAITS: [&str; 2] = ["hang", "stop"];

/// A section, the text that picks a part of it, and where the fault is: GPU and launch.
const PARTS: [(&str, &str, &str); 11] = [
    ("silicon", "lines", "0 1"),
    ("silicon", "messages", "0 1"),
    ("correctness", "2 GPUs", "1 1"),
    ("correctness", "2 ranks on GPU 0", "0 1"),
    ("transports", "P2P in one process", "1 2"),
    ("transports", "P2P by IPC, Simple", "1 2"),
    // Each rank is the first of its host, on the same GPU.
    ("transports", "NET, Simple", "0 2"),
    ("bandwidth", "all-reduce, direct, 2 GPUs, threads", "1 2"),
    ("bandwidth", "all-reduce, LL, 2 GPUs, processes", "1 2"),
    ("one-gpu", "times of 2 ranks", "0 3"),
    ("sanitizer", "memcheck", "0 1"),
];

/// What is wrong with the page of a part with a fault.
fn problem(part: (&str, &str, &str), fault: (&str, &[&str])) -> Option<String> {
    let ((section, text, place), (kind, causes)) = (part, fault);
    let (gpu, launch) = place.split_once(' ').unwrap();
    let gpus = match kind {
        // Processes agree by messages on the number of launches, so these are wrong for all.
        "wrong" => vec!["0", "1"],
        _ => vec![gpu],
    };
    let lines = gpus
        .into_iter()
        .map(|gpu| format!("fault {gpu} {launch} {kind}"));
    let lines: Vec<String> = lines.collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let phantom = Phantom::new("dgx-a100", &lines);
    let mut command = phantom.topo();
    command.args("gpu-test --warm 0 --cases 3 --end 1K --ranks 2 --only".split(' '));
    command.args([section, "--match", text]);
    if WAITS.contains(&kind) {
        command.args(["--timeout", "1"]);
    }
    let output = command
        .env("PATH", with_sanitizer(&phantom))
        .output()
        .unwrap();
    let page = String::from_utf8_lossy(&output.stdout);
    let failed = page.lines().find(|line| line.contains("| **FAILED** |"));
    let named = failed.is_some_and(|line| causes.iter().any(|cause| line.contains(cause)));
    if named && output.status.code() == Some(1) {
        return None;
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Some(format!(
        "{section}, {text}, {kind}: {}\n{page}\n{errors}",
        output.status
    ))
}

/// Each part is red for faults, with their causes: for so many kinds that each part and each kind
/// has its turn.
#[test]
fn faults_are_found() {
    faults(FAULTS.len());
}

/// Each part is red for each kind of fault.
#[test]
#[ignore = "deep: cargo xtask deep"]
fn deep_faults_are_found() {
    faults(1);
}

/// Plants one of `every` faults.
fn faults(every: usize) {
    let all = PARTS.iter().enumerate().flat_map(|(number, part)| {
        let kinds = FAULTS.iter().enumerate();
        let kinds = kinds.filter(move |(kind, _)| (number + kind) % every == 0);
        kinds.map(|(_, fault)| (*part, *fault))
    });
    let all: Mutex<Vec<_>> = Mutex::new(all.collect());
    let problems: Mutex<Vec<String>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                loop {
                    let Some((part, fault)) = all.lock().unwrap().pop() else {
                        break;
                    };
                    problems.lock().unwrap().extend(problem(part, fault));
                }
            });
        }
    });
    let problems = problems.into_inner().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// NCCL beside ranks on one GPU: without a library the page says what is missing, and one that
/// cannot be used fails its part alone.
#[test]
fn nccl_beside_ranks_on_one_gpu() {
    let phantom = Phantom::new("dgx-h100", &[]);
    let own = std::env::current_exe().unwrap();
    let driver = own.with_file_name("libphantom.so");
    let rows = [
        (
            None,
            "| not run | NCCL's library is not given; expected libnccl.so.2",
        ),
        (Some(driver), "has no function ncclGetVersion"),
        (Some(phantom.path("none.so")), "none.so cannot be loaded"),
    ];
    for (library, words) in rows {
        let mut command = phantom.topo();
        command.args("gpu-test --warm 0 --end 1K --ranks 2 --only one-gpu".split(' '));
        command.args(["--match", "NCCL with 2 ranks"]);
        if let Some(file) = &library {
            command.arg("--nccl-library").arg(file);
        }
        let output = command.output().unwrap();
        let page = String::from_utf8_lossy(&output.stdout);
        let row = page.lines().find(|it| it.contains("NCCL with 2 ranks"));
        assert!(row.is_some_and(|it| it.contains(words)), "{page}");
        let status = i32::from(library.is_some());
        assert_eq!(output.status.code(), Some(status), "{page}");
    }
}

/// A GPU whose kernel faults ends its own part and no other.
#[test]
fn with_a_broken_gpu() {
    let phantom = Phantom::new("dgx-h100", &["fault 1 1"]);
    let output = run(
        &phantom,
        &["--cases", "1", "--ranks", "2", "--only", "correctness"],
    );
    let page = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{page}");
    let lines = |what: &str| page.lines().filter(|line| line.contains(what)).count();
    assert_eq!(lines("**FAILED**"), 2, "{page}");
    assert_eq!(lines("2 ranks on GPU 0 | right"), 1, "{page}");
}

/// The files have each part that ended before the test was killed.
#[test]
fn a_killed_test_keeps_what_ended() {
    let phantom = Phantom::new("dgx-h100", &[]);
    let mut command = phantom.topo();
    command.args("gpu-test --cases 1 --ranks 1,2 --only correctness -o".split(' '));
    command
        .arg(phantom.path("results"))
        .args(["--match", "on GPU 0"]);
    let mut test = command.stdout(Stdio::null()).spawn().unwrap();
    let page = phantom.path("results/gpu-test.md");
    let until = Instant::now() + Duration::from_secs(60);
    let kept = loop {
        let kept = fs::read_to_string(&page).unwrap_or_default();
        if kept.contains("| 1 ranks on GPU 0 | right |") || Instant::now() > until {
            break kept;
        }
        std::thread::yield_now();
    };
    test.kill().unwrap();
    test.wait().unwrap();
    assert!(kept.contains("1 checks: 1 right"), "{kept}");
}
