//! Measures choices for a collective beside each other: in turns, so that what disturbs the machine
//! meets all alike.

use std::ops::RangeInclusive;
use std::time::Instant;

use anyhow::Result;
use backend_cpu::choose::ExplainedChoice;
use executor::check::{Check, Sample};
use executor::{Choice, Request};

use crate::bench::Bench;
use crate::latency::{agreed, nanoseconds};

/// Choices are measured that are expected to take at most this many times as long as the fastest.
const WITHIN: f64 = 3.0;

/// Most rounds of turns.
const ROUNDS: u32 = 12;

/// Rounds into which the time is divided.
const PACED_ROUNDS: u32 = 8;

/// Rounds after the first one, which shows how long a launch takes, that every choice gets which is
/// not far behind.
const LEAST_ROUNDS: u32 = 3;

/// Time relative to the fastest choice's beyond which a choice gets no more turns, before it has
/// had [`LEAST_ROUNDS`], and afterwards.
const BEHIND: [f64; 2] = [4.0, 1.3];

/// Shortest turn, µs: one launch alone takes as long as the ranks need to meet.
const SHORTEST_US: f64 = 1e3;

/// Most launches of a turn.
const MOST_LAUNCHES: f64 = 4096.0;

/// A choice, and the sizes at which it may be the fastest, by their places.
pub(crate) type Candidate = (Choice, RangeInclusive<usize>);

/// The choices that are expected to be among the fastest at some of the run's sizes.
pub(crate) fn candidates<T: Sample>(bench: &Bench<'_, T>, request: &Request) -> Vec<Candidate> {
    let communicator = &bench.communicator;
    let table = communicator.backend().table(request, communicator.shape());
    let mut all: Vec<Candidate> = Vec::new();
    for (at, bytes) in bench.spec.sizes.iter().enumerate() {
        let explained = table.explain(*bytes);
        let times = explained.iter().map(|it| it.time_us);
        let least = times.fold(f64::INFINITY, f64::min);
        // The first one is taken.
        let taken = explained.first().map(|it| it.choice);
        let counts =
            |it: &&ExplainedChoice| Some(it.choice) == taken || it.time_us <= WITHIN * least;
        for it in explained.iter().filter(counts) {
            match all.iter_mut().find(|(choice, _)| *choice == it.choice) {
                Some((_, sizes)) => *sizes = *sizes.start()..=at,
                None => all.push((it.choice, at..=at)),
            }
        }
    }
    all
}

/// A choice and its rounds.
struct Turns {
    choice: Choice,
    launches: u64,
    /// Time of a launch in each round, µs, on the slowest rank.
    rounds_us: Vec<f64>,
}

impl Turns {
    /// The lower quartile, because other programs only make a time longer.
    fn time_us(&self) -> f64 {
        let mut times = self.rounds_us.clone();
        times.sort_by(f64::total_cmp);
        let quartile = times.get(times.len().saturating_sub(1) / 4);
        quartile.copied().unwrap_or(f64::INFINITY)
    }
}

/// Measures choices in turns. Returns the time of a launch of each, µs, the fastest first. All
/// ranks get the same times: those of the slowest one.
pub(crate) fn compare<T: Sample>(
    bench: &mut Bench<'_, T>,
    check: &Check,
    choices: Vec<Choice>,
) -> Result<Vec<(Choice, f64)>> {
    let time_us = bench.spec.time_ms as f64 * 1e3;
    let turns = choices.into_iter().map(|choice| Turns {
        choice,
        launches: 1,
        rounds_us: Vec::new(),
    });
    let mut all: Vec<Turns> = turns.collect();
    for turns in &all {
        // The first launch prepares.
        bench.turn(check, turns.choice, 1)?;
    }
    let mut left: Vec<usize> = (0..all.len()).collect();
    let began = Instant::now();
    for round in 0..ROUNDS {
        let mut times = Vec::with_capacity(left.len() + 1);
        for at in &left {
            let Turns {
                choice, launches, ..
            } = all[*at];
            // The first launch after another choice is slower.
            bench.turn(check, choice, 1)?;
            times.push(nanoseconds(bench.turn(check, choice, launches)?));
        }
        times.push(nanoseconds(began.elapsed()));
        agreed(bench.communicator, None, &mut times)?;
        let spent_us = times.pop().unwrap_or(u64::MAX) as f64 / 1e3;
        let rounds_left = f64::from(PACED_ROUNDS.saturating_sub(round));
        let turn_us = (time_us - spent_us) / rounds_left.max(2.0) / left.len().max(1) as f64;
        for (at, time) in left.iter().zip(times) {
            let turns = &mut all[*at];
            let each_us = (time as f64 / 1e3 / turns.launches as f64).max(1e-3);
            // The first round is cold.
            if round == 1 {
                turns.rounds_us.clear();
            }
            turns.rounds_us.push(each_us);
            let launches = turn_us.max(SHORTEST_US) / each_us;
            turns.launches = launches.clamp(1.0, MOST_LAUNCHES) as u64;
        }
        let times = left.iter().map(|at| all[*at].time_us());
        let least = times.fold(f64::INFINITY, f64::min);
        let behind = BEHIND[usize::from(round >= LEAST_ROUNDS)];
        // One round may have been disturbed.
        if round > 1 {
            left.retain(|at| all[*at].time_us() <= behind * least);
        }
        let is_over = spent_us >= time_us && round >= 1 || spent_us >= 3.0 * time_us;
        if is_over || left.len() < 2 && round >= LEAST_ROUNDS {
            break;
        }
    }
    let mut timed: Vec<_> = all.iter().map(|it| (it.choice, it.time_us())).collect();
    timed.sort_by(|one, other| one.1.total_cmp(&other.1));
    Ok(timed)
}
