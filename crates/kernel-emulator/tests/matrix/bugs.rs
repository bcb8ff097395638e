//! Bugs that are planted in the kernels are found.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use device_runtime::LaunchOptions;
use executor::Choice;
use executor::suite::{self, Case};
use kernel_emulator::{Bug, Emulator, communicators};
use program::{Collective, ElementType, Protocol, Reduction};
use program::{Schedule, Transfer};

use super::{settings, shared_by, small};

/// Orders of threads to try.
const SEEDS: u64 = 40;

fn case(schedule: Schedule, transfer: Transfer, protocol: Protocol) -> Case {
    Case {
        collective: Collective::AllReduce,
        choice: Choice {
            schedule,
            transfer,
            protocol,
            channels: 2,
            piece_bytes: 0,
        },
        element: ElementType::I32,
        reduction: Reduction::Sum,
        ranks: 3,
        root: 0,
        count: 12_001,
        in_place: false,
    }
}

fn ring(protocol: Protocol) -> Case {
    case(Schedule::Ring, Transfer::Fifo, protocol)
}

/// With the multicast of a switch.
fn nvls() -> Case {
    case(Schedule::Nvls, Transfer::Direct, Protocol::Simple)
}

/// Only the slots that it waits for keep the root from running ahead.
fn chain(protocol: Protocol) -> Case {
    Case {
        collective: Collective::Broadcast,
        ..ring(protocol)
    }
}

/// The number of orders that show a bug, and the first report.
fn found(bug: Bug, cases: &[Case], options: &LaunchOptions) -> (u64, String) {
    found_on(|seed| Emulator::new(seed, bug), bug, cases, options)
}

/// The same on weak memory.
fn found_weak(bug: Bug, case: Case) -> (u64, String) {
    let emulator = |seed| Emulator::new(seed, bug).with_weak_memory();
    found_on(emulator, bug, &[case], &small(2))
}

fn found_on(
    emulator: impl Fn(u64) -> Emulator,
    bug: Bug,
    cases: &[Case],
    options: &LaunchOptions,
) -> (u64, String) {
    let mut first = String::new();
    let mut count = 0;
    let seeds = if bug == Bug::None { SEEDS / 5 } else { SEEDS };
    for seed in 1..=seeds {
        let emulator = emulator(seed * 1000);
        let made = communicators(cases[0].ranks, &settings(), emulator, options.clone());
        if let Err(problem) = suite::run(made.expect("there is memory"), cases) {
            count += 1;
            if first.is_empty() {
                first = problem;
            }
            if bug != Bug::None {
                break;
            }
        }
    }
    (count, first)
}

#[test]
fn kernels_without_bugs_pass() {
    for case in [
        ring(Protocol::Simple),
        ring(Protocol::Ll),
        ring(Protocol::Ll128),
        case(Schedule::TwoPhaseMesh, Transfer::Direct, Protocol::Simple),
    ] {
        assert_eq!(found(Bug::None, &[case], &small(2)), (0, String::new()));
    }
}

/// Bugs with a case that shows them, and what the report says.
fn planted() -> [(Bug, Case, &'static str); 9] {
    // Here signals also separate reading a buffer from writing to it.
    let direct = Case {
        in_place: true,
        ..case(Schedule::Mesh, Transfer::Direct, Protocol::Simple)
    };
    let stuck = "no thread of any block makes progress";
    [
        // A thread may also take the end of the lane for its step, and leave the others.
        (Bug::EarlyDone, ring(Protocol::Simple), ""),
        (Bug::NoCredit, chain(Protocol::Simple), "wrong elements"),
        (Bug::EarlyCredit, chain(Protocol::Simple), "wrong elements"),
        (Bug::WrongFlag, ring(Protocol::Ll), stuck),
        (Bug::NoFree, ring(Protocol::Simple), ""),
        (Bug::NoTail, ring(Protocol::Simple), stuck),
        (Bug::NoSignal, direct, "wrong elements"),
        (Bug::NoSignal, nvls(), "wrong elements"),
        (Bug::NoVote, ring(Protocol::Ll128), ""),
    ]
}

/// The number of the bug in [`planted`] that a process of its own looks for.
const PLANTED: &str = "TOPO_TEST_PLANTED_BUG";

/// A kernel with a bug may store to any address, so each has a process of its own, and its death by
/// such a store is a report, too.
#[test]
fn planted_bugs_are_found() {
    let bugs = planted();
    if let Ok(number) = std::env::var(PLANTED) {
        let number: usize = number.parse().expect("it is a number");
        let (bug, case, said) = bugs[number];
        let (count, first) = found(bug, &[case], &small(2));
        assert!(count > 0, "{bug:?} was not found by {SEEDS} seeds");
        assert!(first.contains(said), "{bug:?}: {first}");
        return;
    }
    for (number, (bug, ..)) in bugs.iter().enumerate() {
        let output = Command::new(std::env::current_exe().expect("the test has a file"))
            .args(["--exact", "bugs::planted_bugs_are_found"])
            .env(PLANTED, number.to_string())
            .output()
            .expect("the test starts again");
        let wild = [libc::SIGSEGV, libc::SIGBUS].map(Some);
        assert!(
            output.status.success() || wild.contains(&output.status.signal()),
            "{bug:?}: {}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout)
        );
    }
}

/// With three blocks per lane, waiting for one block does not cover the stores of another.
#[test]
fn signals_of_one_share_are_not_enough() {
    let direct = Case {
        in_place: true,
        ..case(Schedule::Mesh, Transfer::Direct, Protocol::Simple)
    };
    let (count, first) = found(Bug::OneShare, &[direct], &shared_by(3, 1));
    assert!(count > 0 && first.contains("wrong elements"), "{first}");
    assert_eq!(
        found(Bug::None, &[direct], &shared_by(3, 1)),
        (0, String::new())
    );
}

/// Short messages leave most lines of a slot unchanged, until a long one reads them after flags
/// wrapped around.
#[test]
fn flags_that_are_not_cleaned_are_found() {
    let options = LaunchOptions {
        first_step: 0x7fff_ffec,
        stale_flag: 0x8000_0002,
        ..small(2)
    };
    let one_line = Case {
        count: 2,
        choice: Choice {
            channels: 1,
            ..chain(Protocol::Ll).choice
        },
        ..chain(Protocol::Ll)
    };
    let long = Case {
        count: 2501,
        ..one_line
    };
    // A case is two launches, and a short message one step.
    let mut cases = vec![one_line; 10];
    cases.push(long);
    let (count, first) = found(Bug::NoCleaning, &cases, &options);
    assert!(count > 0 && first.contains("wrong elements"), "{first}");
    assert_eq!(found(Bug::None, &cases, &options), (0, String::new()));
}

/// A report says where the threads are.
#[test]
fn a_deadlock_is_told() {
    let (_, problem) = found(Bug::NoTail, &[ring(Protocol::Simple)], &small(1));
    for words in ["block 0:", "waiting for a count to come to", "at barrier"] {
        assert!(problem.contains(words), "{problem}");
    }
}

#[test]
fn kernels_without_bugs_pass_on_weak_memory() {
    for case in [
        ring(Protocol::Simple),
        ring(Protocol::Ll),
        ring(Protocol::Ll128),
        case(Schedule::TwoPhaseMesh, Transfer::Direct, Protocol::Simple),
        Case {
            in_place: true,
            ..case(Schedule::Mesh, Transfer::Direct, Protocol::Simple)
        },
    ] {
        assert_eq!(found_weak(Bug::None, case), (0, String::new()));
    }
}

/// Bugs that a processor with ordered stores hides.
#[test]
fn bugs_planted_on_weak_memory_are_found() {
    // Here peers read data that was stored in the same launch.
    let direct = Case {
        in_place: true,
        ..case(Schedule::Mesh, Transfer::Direct, Protocol::Simple)
    };
    for (bug, case) in [
        (Bug::WeakFence, ring(Protocol::Simple)),
        (Bug::WeakFence, direct),
        (Bug::NoAcquire, ring(Protocol::Simple)),
        (Bug::NoRelease, ring(Protocol::Simple)),
        (Bug::NoRelease, direct),
        (Bug::NoRelease, nvls()),
        (Bug::OneFlag, ring(Protocol::Ll)),
        (Bug::SplitLine, ring(Protocol::Ll128)),
    ] {
        let (count, first) = found_weak(bug, case);
        assert!(count > 0, "{bug:?} was not found by {SEEDS} seeds");
        assert!(first.contains("wrong elements"), "{bug:?}: {first}");
        println!("{bug:?}: {}", first.lines().next().unwrap_or_default());
    }
}

/// On x86 stores keep their order, so without weak memory only ThreadSanitizer can show it.
#[test]
#[ignore = "shows something under ThreadSanitizer only: `cargo xtask sanitize thread` runs it"]
fn a_weak_fence() {
    found(Bug::WeakFence, &[ring(Protocol::Simple)], &small(1));
}
