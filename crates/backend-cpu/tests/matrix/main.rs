//! Every collective with every choice, type, operation, number of ranks and odd sizes, each element
//! checked.
//!
//! By default a sample is run; `TOPO_MATRIX_SEED` takes another one, `TOPO_MATRIX_SAMPLE` a larger
//! one. The whole matrix is `cargo xtask matrix`.

use std::time::Duration;

use backend_cpu::Cpu;
use executor::suite::{self, COUNTS, Case};
use executor::{Communicator, Settings};

/// Numbers of ranks.
const RANKS: [u32; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 16];

/// Cases of the sample.
const SAMPLE: u64 = 600;

fn from_environment(name: &str, otherwise: u64) -> u64 {
    let given = std::env::var(name).ok();
    given
        .and_then(|text| text.parse().ok())
        .unwrap_or(otherwise)
}

/// Runs cases on as few communicators as there are numbers of ranks among neighbours.
fn run_all(cases: &[Case]) {
    for group in cases.chunk_by(|one, other| one.ranks == other.ranks) {
        let settings = Settings {
            longest_wait: Duration::from_secs(60),
            buffer_bytes: Some(64 << 20),
            ..Settings::default()
        };
        let ranks = group.first().map_or(1, |case| case.ranks);
        let communicators = Communicator::local(ranks, &settings, |_| Cpu::default());
        let communicators = communicators.expect("threads can always meet");
        if let Err(problem) = suite::run(communicators, group) {
            panic!("{problem}");
        }
    }
}

fn all_cases() -> Vec<Case> {
    let mut all = suite::cases(&RANKS, &COUNTS);
    all.extend(suite::hierarchical(&RANKS, &COUNTS));
    all.extend(suite::staged(&RANKS, &COUNTS));
    all
}

#[test]
fn sampled_matrix_of_threads() {
    let all = all_cases();
    let size = from_environment("TOPO_MATRIX_SAMPLE", SAMPLE) as usize;
    let sample = suite::sample(&all, size, from_environment("TOPO_MATRIX_SEED", 20_260_101));
    println!("{} of {} cases", sample.len(), all.len());
    run_all(&sample);
}

/// `TOPO_MATRIX_PART`, such as `3/40`: the part to run, counted from 1, and the number of parts.
fn part_from_environment() -> (usize, usize) {
    let given = std::env::var("TOPO_MATRIX_PART").unwrap_or_else(|_| "1/1".to_owned());
    let both = given.split_once('/');
    let both = both.and_then(|(part, parts)| Some((part.parse().ok()?, parts.parse().ok()?)));
    match both {
        Some((part, parts)) if (1..=parts).contains(&part) => (part, parts),
        _ => {
            panic!("TOPO_MATRIX_PART is `{given}`, expected a part and their number, such as 3/40")
        }
    }
}

#[test]
#[ignore = "takes long; run it by `cargo xtask matrix`"]
fn whole_matrix_of_threads() {
    let (part, parts) = part_from_environment();
    let all = all_cases();
    let edge = |part: usize| all.len() * part / parts;
    run_all(&all[edge(part - 1)..edge(part)]);
}
