//! The share of the memory's bandwidth that a large all-reduce of threads reaches.
//!
//! `cargo bench -p backend-cpu --bench bound`
//!
//! With n ranks and S bytes each, an all-reduce reads n·S bytes and writes n·S bytes at best, as
//! much as copying n·S bytes does. Copies and all-reduces take turns, so that what else the machine
//! does meets both alike; medians count, of the share that of each round's.

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use backend_cpu::reduce::copy;
use backend_cpu::{Cpu, Profile};
use executor::{Communicator, Reduction, Settings};

const ROUNDS: usize = 31;

/// Elements (f32) of a rank's message.
const SIZES: [usize; 3] = [4 << 20, 16 << 20, 64 << 20];

/// What a rank measured: seconds of a copy of its share, and of an all-reduce.
type Times = Vec<(f64, f64)>;

fn main() {
    // Cargo also runs benches to see whether they work.
    let rounds = if std::env::args().any(|argument| argument == "--bench") {
        ROUNDS
    } else {
        1
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    println!("n = 2 threads on {cores} cores, f32, medians of {rounds}");
    println!("      S MiB    copy GB/s   bound µs   all-reduce µs   of the bound");
    for elements in SIZES {
        let bytes = 4.0 * elements as f64;
        let (copied, reduced, share) = measure(elements, rounds);
        // Both copy S bytes, so 2·S in all.
        let rate = 2.0 * bytes / copied;
        println!(
            "{:>11}{:>13.1}{:>11.0}{:>16.0}{:>13.0} %",
            elements >> 18,
            rate / 1e9,
            copied * 1e6,
            reduced * 1e6,
            100.0 * share
        );
    }
}

/// Median seconds of the slower rank for a copy of S bytes by each, for an all-reduce, and the
/// median of their ratio.
fn measure(elements: usize, rounds: usize) -> (f64, f64, f64) {
    let profile = Arc::new(Profile::default());
    let backend = |_| Cpu::new(Arc::clone(&profile));
    let communicators = Communicator::local(2, &Settings::default(), backend);
    let communicators = communicators.expect("memory for two ranks");
    let barrier = Barrier::new(2);
    let times: Vec<Times> = std::thread::scope(|scope| {
        let ranks: Vec<_> = communicators
            .into_iter()
            .map(|rank| scope.spawn(|| of_rank(rank, elements, rounds, &barrier)))
            .collect();
        let join = |it: std::thread::ScopedJoinHandle<'_, Times>| it.join().expect("a rank");
        ranks.into_iter().map(join).collect()
    });
    let rounds = times[0].iter().zip(&times[1]);
    let slowest: Times = rounds
        .map(|(one, other)| (one.0.max(other.0), one.1.max(other.1)))
        .collect();
    let median = |of: fn(&(f64, f64)) -> f64| {
        let mut values: Vec<f64> = slowest.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    (
        median(|it| it.0),
        median(|it| it.1),
        median(|it| it.0 / it.1),
    )
}

fn of_rank(
    mut rank: Communicator<Cpu>,
    elements: usize,
    rounds: usize,
    barrier: &Barrier,
) -> Times {
    let mut input = rank.buffer::<f32>(elements).expect("memory");
    let mut output = rank.buffer::<f32>(elements).expect("memory");
    input.fill(1.0);
    output.fill(0.0);
    let mut times = Vec::with_capacity(rounds);
    for round in 0..=rounds {
        let copied = timed(barrier, || {
            // SAFETY: both are as long, and apart.
            unsafe {
                copy(
                    output.as_mut_ptr().cast(),
                    input.as_ptr().cast(),
                    4 * elements,
                    true,
                );
            }
        });
        let reduced = timed(barrier, || {
            rank.all_reduce((&input, &mut output), Reduction::Sum)
                .expect("all-reduce");
        });
        assert!(output[elements - 1] == 2.0, "a wrong sum");
        // The first touches the pages.
        if round > 0 {
            times.push((copied.as_secs_f64(), reduced.as_secs_f64()));
        }
    }
    times
}

fn timed(barrier: &Barrier, run: impl FnOnce()) -> Duration {
    barrier.wait();
    let began = Instant::now();
    run();
    let taken = began.elapsed();
    barrier.wait();
    taken
}
