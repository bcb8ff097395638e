//! The suite of all backends on the kernels' own sources, in orders of threads that a seed decides.
//!
//! By default each choice of each collective runs at least once, plus a sample of everything.
//! `TOPO_MATRIX_SEED` takes another sample, `TOPO_MATRIX_SAMPLE` a larger one.

mod bugs;
mod registered;
#[path = "../support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::Duration;

use device_runtime::{Kernels, LaunchOptions, ProcessRanks};
use executor::connections::SlotBytes;
use executor::suite::{self, Case};
use executor::{Communicator, Memory, Request, Settings};
use kernel_emulator::{Bug, Emulator, communicators};
use program::Transfer;
use program::{Collective, ElementType, Reduction};

/// Cases of the sample.
const SAMPLE: usize = 60;

/// Elements of a block.
const COUNTS: [usize; 6] = [0, 1, 7, 64, 1023, 2501];

fn from_environment(name: &str, otherwise: u64) -> u64 {
    let given = std::env::var(name).ok();
    given
        .and_then(|text| text.parse().ok())
        .unwrap_or(otherwise)
}

/// Blocks with this number of warps that move data, and slots so small that short messages fill all
/// eight repeatedly.
pub fn small(movers: u32) -> LaunchOptions {
    LaunchOptions {
        threads: 64 + 32 * movers,
        slot_bytes: SlotBytes {
            ll: 512,
            ll128: 2880,
            simple: 1024,
        },
        most_shares: 1,
        ..LaunchOptions::nccl()
    }
}

/// The same, with up to `most_shares` blocks per lane of direct transfers.
pub fn shared_by(most_shares: u32, movers: u32) -> LaunchOptions {
    LaunchOptions {
        most_shares,
        ..small(movers)
    }
}

/// Settings of all communicators here.
pub fn settings() -> Settings {
    Settings {
        longest_wait: Duration::from_secs(60),
        buffer_bytes: Some(64 << 20),
        ..Settings::default()
    }
}

/// Runs cases on one communicator per run of equal numbers of ranks.
fn run_all(cases: &[Case], seed: u64, options: &LaunchOptions) {
    run_on(|| Emulator::new(seed, Bug::None), cases, seed, options);
}

fn run_on(emulator: impl Fn() -> Emulator, cases: &[Case], seed: u64, options: &LaunchOptions) {
    for group in cases.chunk_by(|one, other| one.ranks == other.ranks) {
        let ranks = group.first().map_or(1, |case| case.ranks);
        let emulator = emulator();
        let made = communicators(ranks, &settings(), emulator, options.clone());
        if let Err(problem) = suite::run(made.expect("there is memory"), group) {
            panic!("seed {seed}: {problem}");
        }
    }
}

/// Every collective with every algorithm, transfer and protocol, on 2 to 8 ranks in turn, types and
/// operations in turn.
/// The cases that GPUs carry out.
fn cases(ranks: &[u32], counts: &[usize]) -> Vec<Case> {
    let mut all = suite::cases(ranks, counts);
    all.retain(Case::is_of_nccl);
    all
}

#[test]
fn every_choice() {
    let seed = from_environment("TOPO_MATRIX_SEED", 7);
    let mut cases = support::every_choice(0, |number| 2 + (number % 7) as u32, true);
    cases.sort_by_key(|case| case.ranks);
    run_all(&cases, seed, &small(1));
}

#[test]
fn sampled_matrix() {
    let seed = from_environment("TOPO_MATRIX_SEED", 7);
    let size = from_environment("TOPO_MATRIX_SAMPLE", SAMPLE as u64) as usize;
    let all = cases(&[1, 2, 3, 4, 5, 8], &COUNTS);
    run_all(&suite::sample(&all, size, seed), seed, &small(2));
}

/// On memory that keeps no more order than a GPU promises, with the types that are compiled for it.
#[test]
fn sampled_matrix_on_weak_memory() {
    let seed = from_environment("TOPO_MATRIX_SEED", 7);
    let size = from_environment("TOPO_MATRIX_SAMPLE", SAMPLE as u64) as usize;
    let all = cases(&[1, 2, 3, 4, 5, 8], &COUNTS).into_iter();
    let compiled = [ElementType::I32, ElementType::U8];
    let all = all.filter(|case| !case.collective.reduces() || compiled.contains(&case.element));
    let all: Vec<Case> = all.collect();
    let emulator = || Emulator::new(seed, Bug::None).with_weak_memory();
    let sample = suite::sample(&all, size, seed);
    run_on(emulator, &sample, seed, &small(2));
}

/// Every direct choice, with these numbers of blocks per lane, on messages that they do not divide.
fn several_blocks(shares: impl IntoIterator<Item = u32>, emulator: impl Fn(u64) -> Emulator) {
    let seed = from_environment("TOPO_MATRIX_SEED", 7);
    let mut number = 0;
    for most_shares in shares {
        let mut cases = Vec::new();
        for collective in Collective::ALL {
            let choices = suite::choices(collective).into_iter();
            for choice in choices.filter(|choice| choice.transfer == Transfer::Direct) {
                for in_place in [false, true] {
                    number += 1;
                    let wanted = Case {
                        collective,
                        choice,
                        element: [ElementType::I32, ElementType::U8][number / 3 % 2],
                        reduction: Reduction::Sum,
                        ranks: 1 + (number % 6) as u32,
                        root: 0,
                        count: [2501, 63, 1, 12_001, 0][number / 2 % 5],
                        in_place,
                    };
                    if wanted.exists() {
                        cases.push(wanted);
                    }
                }
            }
        }
        assert!(cases.len() > 10);
        cases.sort_by_key(|case| case.ranks);
        let options = shared_by(most_shares, 1);
        run_on(|| emulator(seed), &cases, seed, &options);
    }
}

#[test]
fn several_blocks_per_lane() {
    several_blocks([3], |seed| Emulator::new(seed, Bug::None));
}

#[test]
fn several_blocks_per_lane_on_weak_memory() {
    several_blocks([3], |seed| {
        Emulator::new(seed, Bug::None).with_weak_memory()
    });
}

#[test]
#[ignore = "deep: cargo xtask deep"]
fn deep_several_blocks_per_lane() {
    several_blocks(2..=4, |seed| Emulator::new(seed, Bug::None));
}

#[test]
#[ignore = "deep: cargo xtask deep"]
fn deep_several_blocks_per_lane_on_weak_memory() {
    several_blocks(2..=4, |seed| {
        Emulator::new(seed, Bug::None).with_weak_memory()
    });
}

/// NCCL's sizes of slots and blocks, in the simplest order of threads.
#[test]
fn large_slots() {
    let all = cases(&[2, 3], &[4099]);
    run_all(&suite::sample(&all, 6, 3), 0, &LaunchOptions::nccl());
}

/// Buffers given by address, and the times of each lane.
#[test]
fn addresses_and_times() {
    let options = LaunchOptions {
        trace: true,
        ..shared_by(3, 1)
    };
    let process_ranks = ProcessRanks::new(Emulator::new(3, Bug::None), options, vec![0; 2]);
    let made = Communicator::local(2, &settings(), |rank| {
        Kernels::new(Arc::clone(&process_ranks), rank)
    });
    std::thread::scope(|scope| {
        for mut communicator in made.expect("there is memory") {
            scope.spawn(move || {
                let input = vec![communicator.rank() + 1; 1000];
                let mut output = vec![0_u32; 1000];
                let request = Request {
                    collective: Collective::AllReduce,
                    element: ElementType::U32,
                    reduction: Reduction::Sum,
                    root: 0,
                    to: 0,
                    tag: 0,
                    in_place: false,
                    count: 1000,
                    choice: None,
                };
                let memory = Memory::separate(&input, &mut output);
                communicator.run(&request, memory, 0).unwrap();
                assert_eq!(output, [3; 1000]);
            });
        }
    });
    let spans = process_ranks.take_spans();
    for rank in 0..2 {
        let own = spans.iter().filter(|span| span.rank == rank);
        assert!(own.clone().count() > 0);
        for span in own {
            assert!(span.launch == 1 && 0 < span.begin_ns && span.begin_ns <= span.end_ns);
        }
    }
}

/// The low halves of step numbers wrap around, with lines that were written one round before.
#[test]
fn step_numbers_come_round() {
    let all = cases(&[3], &[12_001]);
    let integers = all.into_iter().filter(|case| {
        case.element == ElementType::I32
            && case.choice.protocol == program::Protocol::Ll
            && case.choice.transfer == Transfer::Fifo
    });
    let integers: Vec<Case> = integers.collect();
    for (first_step, stale_flag) in [
        (0x7fff_ffec, 0x8000_0002),
        (0xffff_ffec, 0x0000_0003),
        (0x1_7fff_fff3, 0x8000_0001),
    ] {
        let options = LaunchOptions {
            first_step,
            stale_flag,
            ..small(2)
        };
        run_all(&suite::sample(&integers, 6, first_step), 5, &options);
    }
}
