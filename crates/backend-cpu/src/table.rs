//! The expected times of all choices for a collective, and the choice at each size.
//!
//! A time is what the model predicts here, corrected by how far the model was from the measurement
//! that is most like it: with as many ranks on the same machine it is the measured time. Times never
//! fall from a size to a larger one.
//!
//! A choice's time counts with its error, so that of two choices with nearly equal times the surer
//! one is taken. Along the sizes, the choices with the least sum of losses are taken, where each
//! change of the choice counts as a loss as large as the error of a measurement.

use executor::backend::CommunicatorShape;
use executor::bootstrap::Crowd;
use executor::{BufferAccess, Choice, Request};
use program::{Collective, Transfer};

use crate::choose::{ExplainedChoice, compared, messages};
use crate::model::Model;
use crate::profile::{MeasuredChoice, Profile};

/// Sizes that are compared: powers of two, up to 512 GiB.
const SIZES: usize = 40;

/// How much faster a choice must be to be taken in place of that of the next size, as a logarithm:
/// the error of a measurement.
const CHANGE: f64 = 0.08;

/// Error of a time that is derived from a measurement, for each unit of their distance, as a
/// logarithm.
const DERIVED_ERROR: f64 = 0.05;

/// Error of a time that only the model knows, as a logarithm.
const MODEL_ERROR: f64 = 0.3;

/// Units of a logarithm in which losses are counted.
const UNITS: f64 = 4096.0;

/// The loss of a choice whose time is not known, in these units.
const UNKNOWN: i64 = 1 << 40;

/// How much slower a choice is assumed to be at a size at which it was not measured any more,
/// because it fell that far behind.
const BEHIND: f64 = 4.0;

/// The expected times of the choices for requests that differ only in their sizes.
#[derive(Debug, Clone)]
pub struct ChoiceTable {
    collective: Collective,
    shape: CommunicatorShape,
    rows: Vec<Row>,
    /// The row that is taken at each power of two.
    taken: Vec<usize>,
}

/// A choice and its times at powers of two.
#[derive(Debug, Clone)]
struct Row {
    choice: Choice,
    /// µs; infinite where nothing is known.
    times: Vec<f64>,
    /// The error of the times, as a logarithm; 0 for measured ones.
    error: f64,
    /// The model of the times' parts, if they are not measured ones.
    model: Option<Model>,
}

/// An entry of a profile, with its choice.
type Measured<'a> = (&'a MeasuredChoice, Choice);

impl ChoiceTable {
    /// The table for requests like this one on a machine with the model `here`.
    pub fn new(
        profile: &Profile,
        here: &Model,
        request: &Request,
        shape: CommunicatorShape,
    ) -> Self {
        let collective = request.collective;
        let measured = profile.measured.iter();
        let measured = measured.filter(|it| it.collective == collective);
        let measured: Vec<Measured<'_>> =
            measured.filter_map(|it| Some((it, it.choice()?))).collect();
        let compared = compared(request, shape).into_iter();
        let rows =
            compared.map(|choice| Row::new((profile, collective, &measured), here, choice, shape));
        let rows: Vec<Row> = rows.collect();
        Self {
            taken: path(&rows),
            collective,
            shape,
            rows,
        }
    }

    /// The choice at a size.
    pub fn choose(&self, bytes: u64) -> Option<Choice> {
        Some(self.rows.get(*self.taken.get(nearest(bytes))?)?.choice)
    }

    /// Expected time of a choice, µs; `None` if it is not compared. Where it is compared with another
    /// number of channels only, the time is that.
    pub fn predict(&self, choice: &Choice, bytes: u64) -> Option<f64> {
        let same = |it: &&Row| {
            let protocol = !choice.transfer.has_protocol() || it.choice.protocol == choice.protocol;
            protocol
                && (it.choice.schedule, it.choice.transfer) == (choice.schedule, choice.transfer)
        };
        let alike = self.rows.iter().filter(same);
        let row = alike.min_by_key(|it| it.choice.channels.abs_diff(choice.channels))?;
        Some(row.time_us(bytes)).filter(|it| it.is_finite())
    }

    /// The choices with their expected times: the one that is taken, then from the fastest on.
    pub fn explain(&self, bytes: u64) -> Vec<ExplainedChoice> {
        let taken = self.taken.get(nearest(bytes)).copied();
        let explained = |(at, row): (usize, &Row)| {
            let time_us = row.time_us(bytes);
            let parts = row.model.and_then(|model| {
                let parts = model.predict(self.collective, &row.choice, &self.shape, bytes)?;
                Some(parts.times(time_us / parts.time_us()))
            });
            let explained = ExplainedChoice {
                choice: row.choice,
                time_us,
                parts,
                messages: messages(self.collective, &row.choice, self.shape, bytes),
            };
            (Some(at) != taken, explained)
        };
        let all = self.rows.iter().enumerate().map(explained);
        let mut all: Vec<_> = all.filter(|(_, it)| it.time_us.is_finite()).collect();
        all.sort_by(|(unlike, one), (other_unlike, other)| {
            let times = one.time_us.total_cmp(&other.time_us);
            unlike.cmp(other_unlike).then(times)
        });
        all.into_iter().map(|(_, it)| it).collect()
    }
}

impl Row {
    fn new(
        (profile, collective, measured): (&Profile, Collective, &[Measured<'_>]),
        here: &Model,
        choice: Choice,
        shape: CommunicatorShape,
    ) -> Self {
        let sizes = || (0..SIZES).map(|power| 1_u64 << power);
        let modeled = |bytes| {
            let predicted = here.predict(collective, &choice, &shape, bytes);
            predicted.map_or(f64::INFINITY, |it| it.time_us())
        };
        let alike = measured.iter().filter(|(_, it)| {
            let protocol = !choice.transfer.has_protocol() || it.protocol == choice.protocol;
            protocol && (it.schedule, it.transfer) == (choice.schedule, choice.transfer)
        });
        let alike = alike.filter_map(|it| Some((it, distance(profile, it.0, &choice, shape)?)));
        let nearest = alike.min_by(|one, other| one.1.total_cmp(&other.1));
        let (times, error): (Vec<f64>, f64) = match nearest {
            Some(((measured, choice_there), distance)) => {
                let there = measured.shape(profile.cores);
                let ratio = |(bytes, time): (&u64, f64)| {
                    let model = profile.model;
                    let predicted = model.predict(collective, choice_there, &there, *bytes);
                    time / predicted.map_or(time, |it| it.time_us())
                };
                let rising = rising(&measured.times_us);
                let sizes_there = profile.sizes.iter().skip(measured.first);
                let ratios: Vec<f64> = sizes_there.zip(rising).map(ratio).collect();
                let time = |bytes| {
                    modeled(bytes) * interpolate(&profile.sizes, measured.first, &ratios, bytes)
                };
                (sizes().map(time).collect(), DERIVED_ERROR * distance)
            }
            None => (sizes().map(modeled).collect(), MODEL_ERROR),
        };
        Self {
            choice,
            times: rising(&times),
            error,
            model: (error > 0.0).then_some(*here),
        }
    }

    /// The time at a size, on a straight line of logarithms between powers of two.
    fn time_us(&self, bytes: u64) -> f64 {
        let power = bytes.max(1).ilog2() as usize;
        let last = self.times.len() - 1;
        if power >= last {
            return self.times[last] * (bytes as f64 / (1_u64 << last) as f64);
        }
        let share = (bytes.max(1) as f64).log2() - power as f64;
        let (low, high) = (self.times[power], self.times[power + 1]);
        match low.is_finite() && high.is_finite() {
            true => (low.ln() + share * (high.ln() - low.ln())).exp(),
            false => high,
        }
    }
}

/// The place of the power of two that is nearest to a size.
fn nearest(bytes: u64) -> usize {
    let power = bytes.max(1).ilog2();
    let above = u128::from(bytes).pow(2) >> (2 * power + 1) > 0;
    (power as usize + usize::from(above)).min(SIZES - 1)
}

/// These times without any that is above a later one: other programs only make a time longer.
fn rising(times: &[f64]) -> Vec<f64> {
    let mut rising = times.to_vec();
    for at in (1..rising.len()).rev() {
        rising[at - 1] = rising[at - 1].min(rising[at]);
    }
    rising
}

/// How unlike a measurement is to a choice's use; `None` if it says nothing of it. Each doubling of
/// the ranks counts 1; 0 is the same communicator.
fn distance(
    profile: &Profile,
    measured: &MeasuredChoice,
    choice: &Choice,
    shape: CommunicatorShape,
) -> Option<f64> {
    let there = measured.shape(profile.cores);
    let by_network = |hosts: u32| hosts > 1;
    if by_network(there.hosts) != by_network(shape.hosts) {
        return None;
    }
    let doublings = |one: f64, other: f64| (one.max(1.0) / other.max(1.0)).log2().abs();
    let ranks = doublings(f64::from(there.ranks), f64::from(shape.ranks));
    let hosts = doublings(f64::from(there.hosts), f64::from(shape.hosts));
    let share = |it: Crowd| f64::from(it.ranks) / f64::from(it.cores.max(1));
    let shared = doublings(share(there.crowd), share(shape.crowd));
    let when = |differs: bool, counts: f64| if differs { counts } else { 0.0 };
    let is_shared = |it: Crowd| share(it) > 1.0;
    let by_kernel = |it: BufferAccess| it == BufferAccess::Kernel;
    let memory = match choice.transfer {
        Transfer::Fifo => 0.25,
        Transfer::Direct | Transfer::Staged | Transfer::Hierarchical => 3.0,
    };
    Some(
        ranks
            + hosts
            + shared
            + when(is_shared(there.crowd) != is_shared(shape.crowd), 2.0)
            + when(measured.channels != choice.channels, 1.0)
            + when(there.one_process != shape.one_process, 1.0)
            + when(by_kernel(there.buffers) != by_kernel(shape.buffers), memory),
    )
}

/// The rows to take at the sizes, so that the sum of their losses, and of the changes, is least.
///
/// It counts in whole units, since all ranks must take the same rows: logarithms may differ by their
/// last bit from machine to machine.
fn path(rows: &[Row]) -> Vec<usize> {
    let unit = |logarithm: f64| (logarithm * UNITS).round() as i64;
    let least = |costs: &[i64]| {
        let costs = costs.iter().enumerate();
        costs.min_by_key(|(_, cost)| **cost).map(|(at, _)| at)
    };
    let mut costs = vec![0; rows.len()];
    // From where the cheapest path to each row at each size comes.
    let mut from: Vec<Vec<usize>> = Vec::with_capacity(SIZES);
    for size in 0..SIZES {
        let surely = rows.iter().map(|row| {
            let time = row.times[size];
            let known = time.is_finite() && time > 0.0;
            known.then(|| unit(time.ln() + row.error))
        });
        let surely: Vec<Option<i64>> = surely.collect();
        let fastest = surely.iter().flatten().min().copied().unwrap_or(0);
        let Some(cheapest) = least(&costs) else {
            return Vec::new();
        };
        let changed = costs[cheapest] + unit(CHANGE);
        let mut came = Vec::with_capacity(rows.len());
        for (at, surely) in surely.into_iter().enumerate() {
            let stays = costs[at] <= changed;
            came.push(if stays { at } else { cheapest });
            let loss = surely.map_or(UNKNOWN, |it| it - fastest);
            costs[at] = costs[at].min(changed) + loss;
        }
        from.push(came);
    }
    let mut taken = Vec::with_capacity(SIZES);
    let mut at = least(&costs).unwrap_or(0);
    for came in from.iter().rev() {
        taken.push(at);
        at = came[at];
    }
    taken.reverse();
    taken
}

/// Interpolates at a size on logarithmic scales; `values` are those of sizes from the place `first`
/// on. Before the first size and after the last one it is as there. At other sizes without a value
/// it is [`BEHIND`] times the nearest one.
fn interpolate(sizes: &[u64], first: usize, values: &[f64], bytes: u64) -> f64 {
    let (Some(begin), Some(end)) = (values.first(), values.last()) else {
        return f64::INFINITY;
    };
    let value = |place: usize| match place.checked_sub(first) {
        None => begin * BEHIND,
        Some(at) => values.get(at).copied().unwrap_or(end * BEHIND),
    };
    let above = sizes.partition_point(|size| *size <= bytes);
    if above == 0 || above == sizes.len() {
        return value(above.saturating_sub(1));
    }
    let (low, high) = (sizes[above - 1] as f64, sizes[above] as f64);
    let share = (bytes as f64 / low).ln() / (high / low).ln();
    let (before, after) = (value(above - 1).ln(), value(above).ln());
    (before + share * (after - before)).exp()
}

#[cfg(test)]
mod tests {
    use program::Schedule;

    use super::*;
    use crate::loss;
    use crate::speeds::Scale;

    #[test]
    fn values_between_sizes_are_on_a_straight_line_of_logarithms() {
        let (sizes, times) = ([8, 32, 128], [1.0, 4.0, 5.0]);
        let at = |bytes| interpolate(&sizes, 0, &times, bytes);
        assert_eq!((at(1), at(32), at(512)), (1.0, 4.0, 5.0));
        assert!((at(16) - 2.0).abs() < 1e-9);
        assert_eq!(interpolate(&[], 0, &[], 64), f64::INFINITY);
        let only = |bytes| interpolate(&sizes, 1, &[1.0], bytes);
        assert_eq!((only(8), only(32), only(128)), (BEHIND, 1.0, BEHIND));
        assert!((only(16) - BEHIND.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn built_in_choices_change_seldom_from_size_to_size() {
        let profile = Profile::default();
        for collective in Collective::ALL {
            for ranks in [2, 3, 4, 8, 16] {
                for (one_process, buffers) in [
                    (true, BufferAccess::Mapped),
                    (false, BufferAccess::Mapped),
                    (false, BufferAccess::Kernel),
                ] {
                    let shape = CommunicatorShape {
                        ranks,
                        one_process,
                        hosts: 1,
                        even_hosts: true,
                        channels: 2,
                        crowd: Crowd { ranks, cores: 2 },
                        buffers,
                    };
                    let table = profile.table(&loss::request(collective), shape, Scale::NONE);
                    let changes = table.taken.windows(2).filter(|pair| pair[0] != pair[1]);
                    let changes = changes.count();
                    assert!(changes <= 6, "{collective} {shape:?}: {changes}");
                    for bytes in (0..30).map(|power| 3_u64 << power) {
                        let choice = table.choose(bytes).expect("there is one");
                        let times = [bytes, bytes + bytes / 3];
                        let [time, later] = times.map(|it| table.predict(&choice, it));
                        assert!(time.is_some() && time <= later, "{collective} {bytes}");
                    }
                }
            }
        }
    }

    #[test]
    fn sizes_have_the_nearest_power_of_two() {
        let powers = [0, 1, 2, 5, 6, 11, 12, u64::MAX].map(nearest);
        assert_eq!(powers, [0, 0, 1, 2, 3, 3, 4, SIZES - 1]);
    }

    #[test]
    fn a_time_above_a_later_one_is_lowered() {
        assert_eq!(rising(&[20.8, 4.97, 5.05, 9.92]), [4.97, 4.97, 5.05, 9.92]);
    }

    fn row(choice: usize, times: impl Fn(usize) -> f64, error: f64) -> Row {
        let schedules = Schedule::ALL;
        Row {
            choice: Choice {
                schedule: schedules[choice],
                transfer: Transfer::Fifo,
                protocol: program::Protocol::Simple,
                channels: 1,
                piece_bytes: 0,
            },
            times: (0..SIZES).map(times).collect(),
            error,
            model: None,
        }
    }

    #[test]
    fn neighbors_agree_where_times_are_nearer_than_the_error() {
        // Two choices that are faster by turns, by 5 %.
        let turns = |odd: usize| move |size: usize| if size % 2 == odd { 1.0 } else { 1.05 };
        let taken = path(&[row(0, turns(0), 0.0), row(1, turns(1), 0.0)]);
        assert!(taken.windows(2).all(|pair| pair[0] == pair[1]), "{taken:?}");
        // One that is faster by far from a size on is taken there.
        let grows = |size: usize| if size < 20 { 0.5 } else { 2.0 };
        let taken = path(&[row(0, |_| 1.0, 0.0), row(1, grows, 0.0)]);
        assert!(taken[..20].iter().all(|it| *it == 1) && taken[20..].iter().all(|it| *it == 0));
        // Of nearly equal times, the surer one is taken.
        let taken = path(&[row(0, |_| 1.0, 0.3), row(1, |_| 1.1, 0.0)]);
        assert!(taken.iter().all(|it| *it == 1));
    }
}
