//! Measures the choices for a collective beside each other: in turns, so that what disturbs the
//! machine meets all alike.

use std::ops::RangeInclusive;
use std::time::Instant;

use anyhow::Result;
use executor::check::{Check, Sample};
use executor::{Choice, Request};

use crate::bench::Bench;
use crate::latency::{agreed, nanoseconds};
use crate::load::CoreTime;
use crate::row::{FigureTiming, Launches, RunRow};
use crate::spec::request;

/// Most rounds of turns. The lower quartile of a choice's rounds counts, because other programs only
/// make a time longer.
const ROUNDS: u32 = 12;

/// Rounds into which the time is divided.
const PACED_ROUNDS: u32 = 8;

/// Rounds after the first one, which shows how long a launch takes, that every choice gets which is
/// not far behind.
const LEAST_ROUNDS: u32 = 3;

/// Time relative to the fastest choice's beyond which a choice gets no more turns, before it has had
/// [`LEAST_ROUNDS`], and afterwards.
const BEHIND: [f64; 2] = [4.0, 1.3];

/// Size from which a slow choice does not become the fastest again, bytes.
const LARGE: u64 = 32 << 10;

/// Time relative to the fastest choice beyond which larger sizes are skipped, from [`LARGE`] on and
/// before.
const FAR_BEHIND: [f64; 2] = [4.0, 16.0];

/// Most launches of a turn.
const MOST_LAUNCHES: f64 = 4096.0;

/// A choice, the sizes at which it may be the fastest, by their places, and at how many sizes in a
/// row it was far behind.
type Wanted = (Choice, RangeInclusive<usize>, u32);

/// Sizes in a row at which a choice is far behind before larger ones are skipped: one time may have
/// been disturbed.
const STRIKES: u32 = 2;

/// The choices that are still worth measuring.
#[derive(Default)]
pub(crate) struct Survey {
    choices: Option<Vec<Wanted>>,
}

/// A choice and its rounds.
struct Turns {
    choice: Choice,
    launches: u64,
    run: u64,
    /// Time of a launch in each round, µs, on the slowest rank.
    rounds_us: Vec<f64>,
}

impl Turns {
    fn time_us(&self) -> f64 {
        let mut times = self.rounds_us.clone();
        times.sort_by(f64::total_cmp);
        let quartile = times.get(times.len().saturating_sub(1) / 4);
        quartile.copied().unwrap_or(f64::INFINITY)
    }
}

impl Survey {
    /// Measures the choices at one of the run's sizes that are expected to take at most `within`
    /// times as long as the fastest, in `time_us`; `also` in any case. Returns a row for each, the
    /// fastest first.
    pub(crate) fn size<T: Sample>(
        &mut self,
        bench: &mut Bench<'_, T>,
        at: usize,
        (within, time_us): (f64, f64),
        also: Option<Choice>,
    ) -> Result<Vec<RunRow>> {
        let bytes = bench.spec.sizes.get(at).copied().unwrap_or(1);
        let check = &bench.spec.check::<T>(bytes);
        let request = request::<T>(check);
        let wanted = match self.choices.take() {
            Some(wanted) => wanted,
            None => wanted(bench, &request, within),
        };
        let here = wanted.iter().filter(|(_, sizes, _)| sizes.contains(&at));
        let mut here: Vec<Choice> = here.map(|(choice, ..)| *choice).collect();
        if let Some(also) = also.filter(|it| !here.contains(it)) {
            here.push(also);
        }
        let mut turns = take_turns(bench, check, here, time_us)?;
        turns.sort_by(|one, other| one.time_us().total_cmp(&other.time_us()));
        let least = turns.first().map_or(f64::INFINITY, Turns::time_us);
        // All ranks have the slowest rank's times, so all drop the same.
        let behind = FAR_BEHIND[usize::from(bytes < LARGE)];
        let is_slow = |choice: &Choice| {
            let slow = turns.iter().find(|it| it.choice == *choice);
            slow.is_some_and(|it| it.time_us() > behind * least)
        };
        let kept = wanted.into_iter().filter_map(|(choice, sizes, strikes)| {
            let strikes = if is_slow(&choice) { strikes + 1 } else { 0 };
            (strikes < STRIKES).then_some((choice, sizes, strikes))
        });
        self.choices = Some(kept.collect());
        let row = |turns: &Turns| RunRow {
            collective: request.collective,
            bytes,
            count: request.count,
            choice: turns.choice,
            choice_in_place: None,
            separate: FigureTiming {
                time_us: turns.time_us(),
                latency: None,
                wrong: None,
                launches: Launches {
                    run: turns.run,
                    checked: 0,
                },
            },
            in_place: None,
            predicted_us: None,
            explained: Vec::new(),
            best: None,
            cores: CoreTime::default(),
        };
        Ok(turns.iter().map(row).collect())
    }
}

/// The choices that are expected to be among the fastest at any size.
fn wanted<T: Sample>(bench: &Bench<'_, T>, request: &Request, within: f64) -> Vec<Wanted> {
    let table = bench
        .communicator
        .backend()
        .table(request, bench.communicator.shape());
    let mut wanted: Vec<Wanted> = Vec::new();
    for (at, bytes) in bench.spec.sizes.iter().enumerate() {
        let explained = table.explain(*bytes);
        let times = explained.iter().map(|it| it.time_us);
        let least = times.fold(f64::INFINITY, f64::min);
        for it in explained.iter().filter(|it| it.time_us <= within * least) {
            match wanted.iter_mut().find(|(choice, ..)| *choice == it.choice) {
                Some((_, sizes, _)) => *sizes = *sizes.start()..=at,
                None => wanted.push((it.choice, at..=at, 0)),
            }
        }
    }
    wanted
}

/// Measures choices in turns until the time is over.
fn take_turns<T: Sample>(
    bench: &mut Bench<'_, T>,
    check: &Check,
    choices: Vec<Choice>,
    time_us: f64,
) -> Result<Vec<Turns>> {
    let turns = choices.into_iter().map(|choice| Turns {
        choice,
        launches: 1,
        run: 0,
        rounds_us: Vec::new(),
    });
    let mut all: Vec<Turns> = turns.collect();
    for turns in &mut all {
        // The first launch prepares.
        bench.turn(check, turns.choice, 1)?;
        turns.run += 1;
    }
    let mut left: Vec<usize> = (0..all.len()).collect();
    let began = Instant::now();
    for round in 0..ROUNDS {
        let mut times = Vec::with_capacity(left.len() + 1);
        for at in &left {
            let turns = &mut all[*at];
            times.push(nanoseconds(bench.turn(
                check,
                turns.choice,
                turns.launches,
            )?));
            turns.run += turns.launches;
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
            turns.launches = (turn_us / each_us).clamp(1.0, MOST_LAUNCHES) as u64;
        }
        let medians = left.iter().map(|at| all[*at].time_us());
        let least = medians.fold(f64::INFINITY, f64::min);
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
    Ok(all)
}
