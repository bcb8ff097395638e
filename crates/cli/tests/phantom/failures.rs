//! Each function of the driver fails once: the run ends with a sentence, or does without it.

use std::os::unix::process::ExitStatusExt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::machine::Phantom;

/// The signal of an access to memory that is not mapped.
const SIGSEGV: i32 = 11;

/// Kernels that have not ended so long after an abort are given up, with all that they may use.
const GIVEN_UP: Duration = Duration::from_secs(5);

/// CUDA's error of a function that gets something: no memory. Else an unknown error.
fn error_of(function: &str) -> u32 {
    let gets = [
        "Alloc", "Create", "Map", "Reserve", "Register", "Load", "Retain",
    ];
    match gets.iter().any(|it| function.contains(it)) {
        true => 2,
        false => 999,
    }
}

/// Functions that end what was begun, or wait for its end: after their errors nothing can be freed
/// in order, because it may still be in use.
fn ends(function: &str) -> bool {
    let words = [
        "Free",
        "Destroy",
        "Release",
        "Unload",
        "Unmap",
        "Unregister",
        "Close",
        "Unbind",
        "EndCapture",
        "Synchronize",
    ];
    words.iter().any(|it| function.contains(it))
}

/// The fault of a run on `machine` whose first call of `function` fails.
fn problem(machine: &str, arguments: &str, function: &str, error: u32) -> Option<String> {
    let phantom = Phantom::new(machine, &[&format!("fail {function} 1 {error}")]);
    let began = Instant::now();
    let output = phantom.run(arguments);
    let time = began.elapsed();
    let errors = String::from_utf8_lossy(&output.stderr);
    let report = phantom.report();
    let leaked = report
        .problems
        .iter()
        .find(|it| !it.contains("the machine file:"))
        .filter(|_| !ends(function) && time < GIVEN_UP);
    let said = errors.lines().any(|line| line.starts_with("error: "));
    let wrong = match output.status.code() {
        _ if time > Duration::from_secs(60) => "it took too long",
        _ if errors.contains("panicked") => "it panicked",
        Some(0) => return leaked.cloned(),
        Some(2) if said => return leaked.cloned(),
        // Nobody waited, so a kernel may still run when the rank gives its memory back. A GPU
        // writes to pages that stay pinned; a thread of the phantom faults.
        None if function.contains("Synchronize") && output.status.signal() == Some(SIGSEGV) => {
            return None;
        }
        _ => "it did not end with a sentence",
    };
    Some(format!("{wrong}: {}: {errors}", output.status))
}

/// A machine, and the arguments of a run.
type Job = (&'static str, &'static str);

const OF_THREADS: Job = ("dgx-h100", "--ranks 2 all-reduce --graph 2 -n 4");
const OF_PROCESSES: Job = ("dgx-h100", "--ranks 2 all-reduce --processes");
const OF_NVLS: Job = (
    "dgx-h100",
    "--ranks 2 all-reduce --algorithm nvls --processes",
);

/// Each test run lets one in this many functions fail.
const FEW: usize = 5;

/// Lets the functions fail whose number, divided by `every`, leaves `rest`.
fn calls_fail((machine, arguments): Job, every: usize, rest: usize) {
    let clean = Phantom::new(machine, &[]);
    clean.right(arguments);
    let functions = clean.report().calls;
    let functions = functions.keys().skip(rest).step_by(every);
    let functions: Vec<&str> = functions.map(String::as_str).collect();
    let (functions, problems) = (Mutex::new(functions), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(function) = functions.lock().unwrap().pop() else {
                        break;
                    };
                    let error = error_of(function);
                    if let Some(problem) = problem(machine, arguments, function, error) {
                        let text = format!("{function} fails with {error}: {problem}");
                        problems.lock().unwrap().push(text);
                    }
                }
            });
        }
    });
    let problems = problems.into_inner().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn of_threads() {
    calls_fail(OF_THREADS, FEW, 0);
}

#[test]
fn of_processes() {
    calls_fail(OF_PROCESSES, FEW, 1);
}

#[test]
fn of_nvls() {
    calls_fail(OF_NVLS, FEW, 2);
}

#[test]
#[ignore = "deep: cargo xtask deep"]
fn deep_of_threads() {
    calls_fail(OF_THREADS, 1, 0);
}

#[test]
#[ignore = "deep: cargo xtask deep"]
fn deep_of_processes() {
    calls_fail(OF_PROCESSES, 1, 0);
}

#[test]
#[ignore = "deep: cargo xtask deep"]
fn deep_of_nvls() {
    calls_fail(OF_NVLS, 1, 0);
}
