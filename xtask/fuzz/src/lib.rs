//! Runs the targets of `fuzz-targets` under libFuzzer, and at the end counts how far inputs came.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use fuzz_targets::mutate::{self, Random};
use fuzz_targets::{Depth, Target};
pub use libfuzzer_sys;
use libfuzzer_sys::Corpus;

/// The folder to which the seeds are written instead of fuzzing.
const SEEDS: &str = "TOPO_FUZZ_SEEDS";

/// Seconds of processor time after which a run ends. libFuzzer's own limit also counts the time of
/// other processes.
const SECONDS: &str = "TOPO_FUZZ_SECONDS";

/// Longest document with broken syntax that enters the corpus, bytes.
const LONGEST_BROKEN: usize = 512;

/// Most processor time of one input. A limit of wall-clock time would count pauses of the machine.
const SLOWEST: Duration = Duration::from_secs(10);

/// Executions between two looks at the time.
const LOOK: u64 = 64;

static LIMIT: OnceLock<Duration> = OnceLock::new();

static TARGET: OnceLock<&'static Target> = OnceLock::new();

/// Executions by how far they came: outside, inside, accepted.
static REACHED: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// The program of one target.
#[macro_export]
macro_rules! fuzz {
    ($name:literal) => {
        $crate::libfuzzer_sys::fuzz_target!(
            init: $crate::begin($name),
            |bytes: &[u8]| -> $crate::libfuzzer_sys::Corpus { $crate::run(bytes) }
        );
        $crate::libfuzzer_sys::fuzz_mutator!(
            |data: &mut [u8], size: usize, most: usize, seed: u32| {
                $crate::mutate(data, size, most, seed)
            }
        );
    };
}

/// Begins the program of a target.
///
/// # Panics
/// There is no such target, or its seeds cannot be written.
pub fn begin(name: &str) {
    let target = Target::named(name).expect("the target is in the list");
    if let Some(folder) = std::env::var_os(SEEDS) {
        let folder = Path::new(&folder);
        for (number, seed) in (target.seeds)().iter().enumerate() {
            let path = folder.join(format!("repository-{number:03}"));
            std::fs::write(&path, seed)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        std::process::exit(0);
    }
    let _ = TARGET.set(target);
    if let Ok(seconds) = std::env::var(SECONDS) {
        let seconds = seconds.parse().expect("seconds are a whole number");
        let _ = LIMIT.set(Duration::from_secs(seconds));
    }
    // SAFETY: the function lives as long as the program.
    unsafe { libc::atexit(end) };
}

/// Runs one input. Returns whether the corpus may keep it.
///
/// # Panics
/// The target panics or takes too long.
pub fn run(bytes: &[u8]) -> Corpus {
    let Some(target) = TARGET.get() else {
        return Corpus::Reject;
    };
    let before = processor_time();
    let reached = (target.run)(bytes);
    let time = processor_time() - before;
    assert!(time < SLOWEST, "the input took {time:?} of processor time");
    REACHED[reached as usize].fetch_add(1, Relaxed);
    let [outside, inside, accepted] = counts();
    if (outside + inside + accepted).is_multiple_of(LOOK)
        && LIMIT.get().is_some_and(|limit| processor_time() >= *limit)
    {
        end();
        // SAFETY: nothing is left to do. An ordinary exit would count as a crash here.
        unsafe { libc::_exit(0) };
    }
    // Otherwise the corpus fills with long documents of broken syntax, which lead to no new code.
    let document = (target.document)(bytes).is_some();
    if document && reached == Depth::Outside && bytes.len() > LONGEST_BROKEN {
        Corpus::Reject
    } else {
        Corpus::Keep
    }
}

/// Changes an input in place and returns its new length. Most changes keep the syntax of its
/// document.
pub fn mutate(data: &mut [u8], size: usize, most: usize, seed: u32) -> usize {
    let range = TARGET
        .get()
        .filter(|_| !seed.is_multiple_of(8))
        .and_then(|target| (target.document)(&data[..size]));
    if let Some(range) = range {
        let mut random = Random::new(u64::from(seed));
        let changed = mutate::document(&data[range.clone()], &mut random);
        let changed = [&data[..range.start], &changed, &data[range.end..size]].concat();
        if changed.len() <= most && changed != data[..size] {
            data[..changed.len()].copy_from_slice(&changed);
            return changed.len();
        }
    }
    libfuzzer_sys::fuzzer_mutate(data, size, most)
}

fn counts() -> [u64; 3] {
    REACHED.each_ref().map(|count| count.load(Relaxed))
}

fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` can be written.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

extern "C" fn end() {
    let [outside, inside, accepted] = counts();
    eprintln!("reached: outside {outside}, inside {inside}, accepted {accepted}");
}
