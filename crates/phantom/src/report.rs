//! The report: calls by function, refusals, faults of kernels, leaks. It is appended to the file
//! that the machine file names when the process exits.
//!
//! | line | meaning |
//! |---|---|
//! | `call FUNCTION NUMBER` | how often a function was called |
//! | `wait FUNCTION NUMBER` | how many calls of a function waited for work of a GPU |
//! | `missing FUNCTION` | an entry point that is not implemented was called |
//! | `refused FUNCTION ERROR SECTION: RULE` | a call broke a rule |
//! | `fault GPU: TEXT` | a kernel failed |
//! | `leak TEXT` | an object that was not destroyed before its context |
//! | `kept TEXT` | as `leak`, in a process that asked for an event for 5 s in vain: it gave up |

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::answer::Refusal;

/// Most lines of refusals, faults and leaks that are kept.
const MOST_LINES: usize = 1000;

/// What was noted so far.
#[derive(Debug)]
pub struct Report {
    calls: BTreeMap<&'static str, u64>,
    waits: BTreeMap<&'static str, u64>,
    lines: Vec<String>,
}

static REPORT: Mutex<Report> = Mutex::new(Report {
    calls: BTreeMap::new(),
    waits: BTreeMap::new(),
    lines: Vec::new(),
});

/// Lists what was not destroyed, as lines of the report.
static LEAKS: OnceLock<fn() -> Vec<String>> = OnceLock::new();

/// Sets the function that lists what was not destroyed.
pub fn set_leaks(leaks: fn() -> Vec<String>) {
    let _ = LEAKS.set(leaks);
}

fn lock() -> MutexGuard<'static, Report> {
    REPORT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a call. Returns its number, from 1.
pub fn called(function: &'static str) -> u64 {
    let mut report = lock();
    let count = report.calls.entry(function).or_default();
    *count += 1;
    *count
}

/// Counts a call that waits.
pub fn waited(function: &'static str) {
    *lock().waits.entry(function).or_default() += 1;
}

/// How many calls have waited for work of a GPU so far: for programs that test that theirs do not.
#[unsafe(no_mangle)]
pub extern "C" fn topo_phantom_waits() -> c_int {
    let waits = lock().waits.values().sum::<u64>();
    c_int::try_from(waits).unwrap_or(c_int::MAX)
}

/// Copies between memory of devices, and their bytes.
static COPIES: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Counts a copy between memory of devices.
pub fn copied(bytes: u64) {
    COPIES[0].fetch_add(1, Ordering::Relaxed);
    COPIES[1].fetch_add(bytes, Ordering::Relaxed);
}

/// How many copies between memory of devices this process has asked for so far (`what` 0), and
/// their bytes (1): for programs that test that there are none.
#[unsafe(no_mangle)]
pub extern "C" fn topo_phantom_copied(what: c_int) -> u64 {
    let count = COPIES.get(usize::try_from(what).unwrap_or(usize::MAX));
    count.map_or(0, |it| it.load(Ordering::Relaxed))
}

/// Accesses of kernels to all memories behind an address, of objects that memory was bound to by
/// its address.
static MULTICASTS: AtomicU64 = AtomicU64::new(0);
static URGENT: AtomicU64 = AtomicU64::new(0);

/// Counts such an access.
pub fn multicast() {
    MULTICASTS.fetch_add(1, Ordering::Relaxed);
}

/// Notes a launch on a stream with more than the default priority.
pub fn urgent() {
    URGENT.fetch_add(1, Ordering::Relaxed);
}

/// How many such launches this process has made so far.
#[unsafe(no_mangle)]
pub extern "C" fn topo_phantom_urgent() -> u64 {
    URGENT.load(Ordering::Relaxed)
}

/// How many multicasts kernels of this process have made so far on memory of a program, not of a
/// library: for programs that test that theirs is used where it is.
#[unsafe(no_mangle)]
pub extern "C" fn topo_phantom_multicasts() -> u64 {
    MULTICASTS.load(Ordering::Relaxed)
}

/// Notes a line.
pub fn note(line: String) {
    let mut report = lock();
    if report.lines.len() < MOST_LINES {
        report.lines.push(line.replace('\n', "; "));
    }
}

/// Notes a refused call.
pub fn refused(function: &str, refusal: &Refusal) {
    let (title, rule) = (refusal.section.title(), &refusal.rule);
    note(format!(
        "refused {function} {} {title}: {rule}",
        refusal.error
    ));
}

/// Appends the report to a file, in one write, so that reports of processes do not mix.
pub fn write(path: &str) {
    if let Some(leaks) = LEAKS.get() {
        leaks().into_iter().for_each(note);
    }
    let report = lock();
    let mut text = String::new();
    for (function, count) in &report.calls {
        let _ = writeln!(text, "call {function} {count}");
    }
    for (function, count) in &report.waits {
        let _ = writeln!(text, "wait {function} {count}");
    }
    for line in &report.lines {
        let _ = writeln!(text, "{line}");
    }
    let file = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    if let Err(error) = written {
        eprintln!("topo phantom: the report {path} cannot be written: {error}");
    }
}
