//! Overwrites random words of the memory that ranks share. Every rank must end by itself and in
//! time: with a success, an error that says what happened, or a count of wrong elements.
//!
//! `TOPO_CORRUPT_SEEDS=500` runs 500 seeds for each algorithm, `TOPO_CORRUPT_FROM` sets the first
//! seed, `TOPO_CORRUPT_PROGRAM` the program file, `TOPO_CORRUPT_JOBS` the number of jobs at a time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::job::{Job, Memory};
use super::program::Said;

/// Algorithms, each with a protocol or a transfer.
const CHOICES: [[&str; 4]; 4] = [
    ["--algorithm", "ring", "--protocol", "ll"],
    ["--algorithm", "tree", "--protocol", "ll128"],
    ["--algorithm", "mesh", "--protocol", "simple"],
    ["--algorithm", "two-phase-mesh", "--transfer", "direct"],
];

/// Words of a memory file that are read. The used ones lie at the beginning.
const MOST_WORDS: u64 = 1 << 15;

/// The job's `--timeout`, s.
const TIMEOUT: u64 = 1;

/// Time beyond the timeout: 2 s until all ranks know of a failure, and the duration of a job.
const SLACK: Duration = Duration::from_secs(5);

/// Small messages, so that every element is checked often. A job takes some tenths of a second.
const WHAT: [&str; 12] = [
    "all-reduce",
    "-b",
    "8",
    "-e",
    "64K",
    "-w",
    "1",
    "--timeout",
    "1",
    "--no-in-place",
    "--time",
    "10",
];

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// A random number generator (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 16) % end
    }

    /// Overwrites some words, mostly words that change (counters, flags) or that are not zero.
    fn overwrite(&mut self, memory: &Memory) {
        let before = memory.words(MOST_WORDS);
        thread::sleep(Duration::from_micros(100));
        let now = memory.words(MOST_WORDS);
        let place = |(at, (one, other)): (usize, (&u64, &u64))| (at as u64, *one != *other, *other);
        let places: Vec<_> = before.iter().zip(&now).enumerate().map(place).collect();
        let changed: Vec<u64> = places.iter().filter(|it| it.1).map(|it| it.0).collect();
        let used: Vec<u64> = places
            .iter()
            .filter(|it| it.2 != 0)
            .map(|it| it.0)
            .collect();
        for _ in 0..1 + self.below(16) {
            let among = match self.below(8) {
                0 => &[][..],
                1 | 2 => &used,
                _ => &changed,
            };
            let word = match among.len() as u64 {
                0 => self.below(now.len() as u64),
                many => among[self.below(many) as usize],
            };
            self.write(memory, word);
        }
    }

    fn write(&mut self, memory: &Memory, word: u64) {
        let before = memory.read(word);
        let small = self.below(64);
        let value = match self.below(8) {
            0 => self.next(),
            1 => u64::MAX - small,
            2 => before.wrapping_add(small),
            3 => before.wrapping_sub(small),
            4 => before ^ 1 << small,
            5 => before & 0xffff_ffff | self.next() << 32,
            6 => before & !0xffff_ffff | self.next() >> 32,
            _ => small,
        };
        memory.write(word, value);
    }
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Right,
    Wrong,
    Failed,
}

/// Runs a job while words of its memory are overwritten. Keeps the longest time from the last
/// overwrite to the end in `longest`.
fn disturb(seed: u64, choice: usize, longest: &Mutex<Duration>) -> Result<Outcome, String> {
    let program = variable("TOPO_CORRUPT_PROGRAM");
    let program: PathBuf = program.unwrap_or_else(|| env!("CARGO_BIN_EXE_topo").into());
    let mut random = Random((seed * 4 + choice as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let ranks = 2 + (seed % 3) as u32;
    let arguments = [&WHAT[..], &CHOICES[choice]].concat();
    let start = match seed % 4 {
        0 => Job::started_together,
        _ => Job::by_hand,
    };
    let mut job = start(&program, ranks, &arguments);
    job.await_memory("connections1");
    thread::sleep(Duration::from_micros(random.below(60_000)));
    let victim = format!("ofrank{}", random.below(u64::from(ranks)));
    // Buffer tables and buffers matter where ranks access the memory of their peers.
    let places = match CHOICES[choice][2] {
        "--transfer" => ["base", "base", "connections", "buffers"],
        _ => ["base", "connections", "connections", "connections"],
    };
    let name = places[random.below(4) as usize];
    let mut memory = job.memory(name);
    memory.retain(|it| it.name.ends_with(&victim));
    for _ in 0..1 + random.below(20) {
        if memory.is_empty() || job.is_over() {
            break;
        }
        let at = random.below(memory.len() as u64) as usize;
        random.overwrite(&memory[at]);
    }
    let last = Instant::now();
    let said = job.finish(last + Duration::from_secs(TIMEOUT) + SLACK);
    let mut longest = longest.lock().unwrap();
    *longest = (*longest).max(last.elapsed());
    drop(longest);
    judge(&said).map_err(|why| format!("seed {seed}, {}: {why}", arguments.join(" ")))
}

fn judge(said: &[Said]) -> Result<Outcome, String> {
    let mut outcome = Outcome::Right;
    for (rank, it) in said.iter().enumerate() {
        if !it.is_orderly() {
            return Err(format!("rank {rank}: {it:?}"));
        }
        outcome = outcome.max(match it.status {
            Some(0) => Outcome::Right,
            Some(1) => Outcome::Wrong,
            _ => Outcome::Failed,
        });
    }
    let table = &said[0].out;
    match outcome {
        Outcome::Right if !table.contains("every element is right") => {
            Err(format!("all ended well, and rank 0 said: {table}"))
        }
        Outcome::Wrong if !table.contains("wrong") => {
            Err(format!("rank 0 found wrong elements, and said: {table}"))
        }
        outcome => Ok(outcome),
    }
}

pub(crate) fn random_words_end_in_order() {
    let seeds: u64 = variable("TOPO_CORRUPT_SEEDS").unwrap_or(6);
    let first: u64 = variable("TOPO_CORRUPT_FROM").unwrap_or(0);
    let jobs = seeds * CHOICES.len() as u64;
    let (next, longest) = (AtomicU64::new(0), Mutex::new(Duration::ZERO));
    let outcomes: Mutex<BTreeMap<Outcome, u64>> = Mutex::default();
    let problems: Mutex<Vec<String>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..variable("TOPO_CORRUPT_JOBS").unwrap_or(3) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= jobs {
                        return;
                    }
                    match disturb(first + number / 4, (number % 4) as usize, &longest) {
                        Ok(outcome) => {
                            *outcomes.lock().unwrap().entry(outcome).or_default() += 1;
                        }
                        Err(problem) => {
                            eprintln!("{problem}");
                            problems.lock().unwrap().push(problem);
                        }
                    }
                }
            });
        }
    });
    let (outcomes, longest) = (
        outcomes.into_inner().unwrap(),
        longest.into_inner().unwrap(),
    );
    println!("{jobs} jobs: {outcomes:?}; the last ended after {longest:?}");
    let problems = problems.into_inner().unwrap();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    // Overwriting unused words would prove nothing.
    let failed = outcomes.get(&Outcome::Failed).copied().unwrap_or(0);
    assert!(failed > jobs / 20, "{outcomes:?}");
}
