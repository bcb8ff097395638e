//! The launches that the ranks make before they look at the clock again, so that timing lasts as
//! long as was asked for, also where launches become slower meanwhile.

use anyhow::Result;

/// Batches of which the median is taken.
const BATCHES: u32 = 5;

/// Most launches in a row, in case the clock is too coarse to end the loop.
const MOST_LAUNCHES: u64 = 1 << 20;

/// Launches in a row, where a batch has as many: what one of them hides of the next one counts.
const IN_A_ROW: u64 = 4;

/// Most that a part may have more launches than the one before.
const GROWTH: u64 = 64;

/// Parts of the time that was asked for.
const PARTS: f64 = 64.0;

/// Shortest part, µs. Shorter ones would time the agreement of the ranks too.
const SHORTEST_US: f64 = 2e3;

/// Launches in a row, and their time, on which all ranks agree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    /// Time of the launches on the slowest rank, µs.
    pub taken_us: f64,
    /// Time since the first part began, µs.
    pub spent_us: f64,
}

/// The number of launches in the next part, by the time of the last one.
#[derive(Debug)]
pub(crate) struct Pace {
    part_us: f64,
    batch_us: f64,
    launches: u64,
    /// Time of a launch in the last part, and in the fastest one, µs.
    each_us: f64,
    fastest_us: f64,
}

impl Pace {
    /// For launches that together last `wanted_us`; one of them takes `each_us`, if known.
    pub(crate) fn new(wanted_us: f64, each_us: Option<f64>) -> Self {
        let batch_us = wanted_us / f64::from(BATCHES);
        let each = each_us.unwrap_or(f64::INFINITY);
        Self {
            part_us: (wanted_us / PARTS).max(SHORTEST_US).min(batch_us),
            batch_us,
            launches: if each_us.is_some() { MOST_LAUNCHES } else { 0 },
            each_us: each,
            fastest_us: each,
        }
    }

    /// Launches of the next part.
    pub(crate) fn next(&self) -> u64 {
        let fill = |time_us: f64, each_us: f64| (time_us / each_us.max(1e-3)) as u64;
        let least = IN_A_ROW.min(fill(self.batch_us, self.fastest_us));
        let enough = fill(self.part_us, self.each_us).max(least);
        let most = self.launches.saturating_mul(GROWTH);
        enough.min(most).clamp(1, MOST_LAUNCHES)
    }

    /// Takes what a part took.
    pub(crate) fn took(&mut self, launches: u64, taken_us: f64) {
        self.launches = launches;
        self.each_us = taken_us / launches as f64;
        self.fastest_us = self.fastest_us.min(self.each_us);
    }

    /// Time that the next part takes if launches do not change, µs.
    fn expected_us(&self) -> f64 {
        self.next() as f64 * self.each_us
    }
}

/// Times of a launch in batches that together last `wanted_us`, µs. All ranks get the same, because
/// they agree on what `part` returns.
///
/// Before them it takes a fifth of the time to learn what a launch takes. There are fewer batches
/// where all of them would take longer than twice the time and than two seconds more.
///
/// # Errors
/// Those of `part`, which makes that many launches.
pub(crate) fn batches(
    wanted_us: f64,
    part: &mut dyn FnMut(u64) -> Result<Part>,
) -> Result<Vec<f64>> {
    let most_us = (2.0 * wanted_us).max(wanted_us + 2e6);
    let mut pace = Pace::new(wanted_us, None);
    let (mut all, mut spent_us) = (Vec::new(), 0.0);
    for batch in 1..=BATCHES + 1 {
        let until_us = pace.batch_us * f64::from(batch);
        if !all.is_empty() && spent_us + pace.expected_us() > most_us {
            break;
        }
        let (mut launches, mut taken_us) = (0, 0.0);
        while launches == 0 || spent_us < until_us && launches < MOST_LAUNCHES {
            let next = pace.next();
            let done = part(next)?;
            pace.took(next, done.taken_us);
            launches += next;
            taken_us += done.taken_us;
            spent_us = done.spent_us;
        }
        all.push(taken_us / launches as f64);
    }
    if all.len() > 1 {
        all.remove(0);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time asked for, µs.
    const WANTED: f64 = 2.5e6;

    /// The batches, and when the last one ended, by a false clock: `launch` is what one takes that
    /// begins at a time, µs. The ranks agree in 100 µs.
    fn timed(wanted_us: f64, launch: impl Fn(f64) -> f64) -> (Vec<f64>, f64) {
        let mut now = 0.0;
        let times = batches(wanted_us, &mut |launches| {
            let began = now;
            for _ in 0..launches {
                now += launch(now);
            }
            let taken_us = now - began;
            now += 100.0;
            Ok(Part {
                taken_us,
                spent_us: now,
            })
        });
        (times.unwrap(), now)
    }

    #[test]
    fn steady_launches_are_timed_in_five_batches() {
        for (wanted, each) in [(WANTED, 3.0), (WANTED, 2e5), (3e4, 3.0), (3e4, 5e4)] {
            let (times, end) = timed(wanted, |_| each);
            assert_eq!(times.len(), 5, "{each} µs");
            assert!(times.iter().all(|it| (it - each).abs() < 1e-6), "{times:?}");
            assert!(
                end >= wanted && end <= 1.3 * wanted + 6.0 * each,
                "{end} for {each} µs"
            );
        }
    }

    #[test]
    fn the_time_asked_for_holds_where_launches_become_slower() {
        for wanted in [3e4, WANTED] {
            for each in [5.0, 100.0, 5e3] {
                for slower in [2.0, 10.0, 40.0] {
                    for begins in [0.0, 0.05, 0.2, 0.5, 1.1] {
                        let slow = |now: f64| now >= begins * wanted;
                        let (times, end) =
                            timed(wanted, |now| each * if slow(now) { slower } else { 1.0 });
                        let most = (2.0 * wanted).max(wanted + 2e6);
                        let what = format!("{wanted} µs: {each} µs, {slower} times after {begins}");
                        assert!(!times.is_empty() && end <= most, "{what}: {end} {times:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_machine_that_is_busy_now_and_then_is_timed_to_the_end() {
        let busy = |now: f64| (now / 2e5) as u64 % 2 == 1;
        let (times, end) = timed(WANTED, |now| if busy(now) { 400.0 } else { 10.0 });
        assert_eq!(times.len(), 5);
        assert!((WANTED..=2.0 * WANTED).contains(&end), "{end}");
    }

    #[test]
    fn a_launch_longer_than_all_the_time_is_timed_once() {
        assert_eq!(timed(WANTED, |_| 6e6), (vec![6e6], 6e6 + 100.0));
    }

    #[test]
    fn a_stopped_clock_ends_the_loop() {
        let (times, _) = timed(3e4, |_| 0.0);
        assert_eq!(times, [0.0; 5]);
    }
}
