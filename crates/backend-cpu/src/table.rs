//! The expected times of all choices for a collective, and the choice at each size.
//!
//! A time is the model's, corrected by the model's error at the most similar measurement: with as
//! many ranks on the same machine it is the measured time. Times never fall from a size to a larger
//! one.
//!
//! Along the sizes, the choices with the least sum of losses are taken. A time counts with its
//! error, so that the surer one of nearly equal choices wins. Each change of the choice counts as a
//! loss.
//!
//! All ranks must take the same choices, but logarithms may differ by their last bit from machine
//! to machine. Therefore times are compared as whole numbers of `UNITS`.

use executor::backend::CommunicatorShape;
use executor::bootstrap::Crowd;
use executor::{BufferAccess, Choice, Request};
use program::{Collective, Transfer};

use crate::choose::{ExplainedChoice, compared, messages};
use crate::model::Model;
use crate::profile::{MeasuredChoice, Profile};
use crate::speeds::Scale;

/// Sizes that are compared: powers of two, up to 512 GiB.
const SIZES: usize = 40;

/// Units of a natural logarithm.
const UNITS: f64 = 4096.0;

/// How much faster a choice must be to be taken in place of that of the next size, as a logarithm:
/// the error of a measurement.
const CHANGE: f64 = 0.08;

/// Error of a time that is derived from a measurement, for each unit of [`distance`], as a
/// logarithm.
const DERIVED_ERROR: f64 = 0.05;

/// Error of a time that only the model knows, as a logarithm.
const MODEL_ERROR: f64 = 0.3;

/// How much slower a choice is assumed to be at a size at which it was not measured, because it was
/// that far behind.
pub(crate) const BEHIND: f64 = 4.0;

/// The expected times of the choices for requests that differ only in their sizes.
#[derive(Debug, Clone)]
pub struct ChoiceTable {
    collective: Collective,
    shape: CommunicatorShape,
    model: Model,
    rows: Vec<Row>,
    /// The row that is taken at each power of two.
    taken: Vec<usize>,
}

/// A choice and its times at powers of two.
#[derive(Debug, Clone)]
struct Row {
    choice: Choice,
    /// Logarithms of the times, µs, in units.
    times: Vec<i64>,
    /// The error of the times, in units; 0 for measured ones.
    error: i64,
}

impl ChoiceTable {
    /// The table for requests like this one, on a machine that differs by `scale` from the
    /// profile's.
    pub fn new(
        profile: &Profile,
        scale: Scale,
        request: &Request,
        shape: CommunicatorShape,
    ) -> Self {
        let collective = request.collective;
        let model = profile.model.scaled(scale);
        let measured = profile.measured.iter();
        let measured = measured.filter(|it| it.collective == collective);
        let measured: Vec<_> = measured.filter_map(|it| Some((it, it.choice()?))).collect();
        let row = |choice: Choice| {
            let modeled = |model: &Model, choice: &Choice, shape: &CommunicatorShape, bytes| {
                let predicted = model.predict(collective, choice, shape, bytes);
                predicted.map_or(f64::INFINITY, |it| it.time_us()).ln()
            };
            let alike = measured.iter().filter(|(_, it)| is_like(it, &choice));
            let alike = alike.map(|it| (it, distance(profile, it.0, &choice, shape)));
            let nearest = alike.filter_map(|(it, distance)| Some((it, distance?)));
            let nearest = nearest.min_by_key(|(_, distance)| *distance);
            let (corrections, error) = match nearest {
                Some(((measured, choice), distance)) => {
                    let there = measured.shape(profile.cores);
                    let sizes = profile.sizes.iter().skip(measured.first);
                    let corrections = sizes.zip(rising(&measured.times_us));
                    let correction = |(bytes, time): (&u64, f64)| {
                        time.ln() - modeled(&profile.model, choice, &there, *bytes)
                    };
                    let corrections: Vec<f64> = corrections.map(correction).collect();
                    let error = DERIVED_ERROR * distance as f64 / DISTANCE_UNITS;
                    (Some((measured.first, corrections)), error)
                }
                None => (None, MODEL_ERROR),
            };
            let time = |power: usize| {
                let bytes = 1 << power;
                let correction = corrections.as_ref().map_or(0.0, |(first, values)| {
                    interpolate(&profile.sizes, *first, values, bytes)
                });
                unit(modeled(&model, &choice, &shape, bytes) + correction)
            };
            Row {
                choice,
                times: rising(&(0..SIZES).map(time).collect::<Vec<_>>()),
                error: unit(error),
            }
        };
        let mut rows: Vec<Row> = compared(request, shape).into_iter().map(row).collect();
        // Where choices were measured, the others were left out because they are far behind.
        if rows.iter().any(|it| it.error == 0) {
            rows.retain(|it| it.error == 0);
        }
        Self {
            taken: path(&rows),
            collective,
            shape,
            model,
            rows,
        }
    }

    /// The choice at a size.
    pub fn choose(&self, bytes: u64) -> Option<Choice> {
        Some(self.rows.get(*self.taken.get(nearest(bytes))?)?.choice)
    }

    /// Expected time of a choice, µs; `None` if it is not compared. Where it is compared with
    /// another number of channels only, the time is that.
    pub fn predict(&self, choice: &Choice, bytes: u64) -> Option<f64> {
        let alike = self.rows.iter().filter(|it| is_like(&it.choice, choice));
        let row = alike.min_by_key(|it| it.choice.channels.abs_diff(choice.channels))?;
        Some(row.time_us(bytes))
    }

    /// The choices with their expected times: the one that is taken, then from the fastest on.
    pub fn explain(&self, bytes: u64) -> Vec<ExplainedChoice> {
        let explained = |row: &Row| {
            let time_us = row.time_us(bytes);
            let modeled = || {
                let model = &self.model;
                let parts = model.predict(self.collective, &row.choice, &self.shape, bytes)?;
                Some(parts.times(time_us / parts.time_us()))
            };
            ExplainedChoice {
                choice: row.choice,
                time_us,
                parts: (row.error > 0).then(modeled).flatten(),
                messages: messages(self.collective, &row.choice, self.shape, bytes),
            }
        };
        let mut all: Vec<_> = self.rows.iter().map(explained).collect();
        let taken = self.choose(bytes);
        all.sort_by(|one, other| {
            let unlike = |it: &ExplainedChoice| Some(it.choice) != taken;
            let times = one.time_us.total_cmp(&other.time_us);
            unlike(one).cmp(&unlike(other)).then(times)
        });
        all
    }
}

impl Row {
    /// The time at a size, µs, on a straight line of logarithms between powers of two.
    fn time_us(&self, bytes: u64) -> f64 {
        let bytes = bytes.max(1);
        let power = (bytes.ilog2() as usize).min(SIZES - 1);
        let above = (bytes as f64).log2() - power as f64;
        let low = self.times[power];
        let rise = match self.times.get(power + 1) {
            Some(high) => unit(above * (high - low) as f64 / UNITS),
            // It grows with the size.
            None => unit(above * std::f64::consts::LN_2),
        };
        ((low + rise) as f64 / UNITS).exp()
    }
}

/// A logarithm in whole units. Hostile profiles may have times near the limits of numbers.
fn unit(logarithm: f64) -> i64 {
    (logarithm.clamp(-1e3, 1e3) * UNITS).round() as i64
}

/// Whether choices differ in nothing but channels. A transfer without a protocol is measured once.
pub(crate) fn is_like(one: &Choice, other: &Choice) -> bool {
    (one.schedule, one.transfer) == (other.schedule, other.transfer)
        && (!one.transfer.has_protocol() || one.protocol == other.protocol)
}

/// The place of the power of two that is nearest to a size.
fn nearest(bytes: u64) -> usize {
    let power = bytes.max(1).ilog2();
    let above = u128::from(bytes).pow(2) >> (2 * power + 1) > 0;
    (power as usize + usize::from(above)).min(SIZES - 1)
}

/// These times without any that is above a later one: other programs only make a time longer.
fn rising<T: PartialOrd + Copy>(times: &[T]) -> Vec<T> {
    let mut rising = times.to_vec();
    for at in (1..rising.len()).rev() {
        if rising[at - 1] > rising[at] {
            rising[at - 1] = rising[at];
        }
    }
    rising
}

/// Units of [`distance`] for each doubling of the ranks.
const DISTANCE_UNITS: f64 = 4.0;

/// How unlike a measurement is to a choice's use; `None` if it says nothing of it. 0 is the same
/// communicator.
fn distance(
    profile: &Profile,
    measured: &MeasuredChoice,
    choice: &Choice,
    shape: CommunicatorShape,
) -> Option<i64> {
    let there = measured.shape(profile.cores);
    if (there.hosts > 1) != (shape.hosts > 1) {
        return None;
    }
    let doublings = |one: f64, other: f64| {
        let doublings = (one.max(1.0) / other.max(1.0)).log2().abs();
        (doublings * DISTANCE_UNITS).round() as i64
    };
    let ranks = doublings(f64::from(there.ranks), f64::from(shape.ranks));
    let hosts = doublings(f64::from(there.hosts), f64::from(shape.hosts));
    let share = |it: Crowd| f64::from(it.ranks) / f64::from(it.cores.max(1));
    let shared = doublings(share(there.crowd), share(shape.crowd));
    let when = |differs: bool, counts: i64| if differs { counts } else { 0 };
    let is_shared = |it: Crowd| share(it) > 1.0;
    let by_kernel = |it: BufferAccess| it == BufferAccess::Kernel;
    let memory = match choice.transfer {
        Transfer::Fifo => 1,
        Transfer::Direct | Transfer::Staged | Transfer::Hierarchical => 12,
    };
    Some(
        ranks
            + hosts
            + shared
            + when(is_shared(there.crowd) != is_shared(shape.crowd), 8)
            + when(measured.channels != choice.channels, 4)
            + when(by_kernel(there.buffers) != by_kernel(shape.buffers), memory),
    )
}

/// How unlike the most similar measurement of a profile is to a communicator; the most if there is
/// none.
pub(crate) fn nearest_measurement(
    profile: &Profile,
    collective: Collective,
    shape: CommunicatorShape,
) -> i64 {
    let measured = profile.measured.iter();
    let alike = measured.filter(|it| it.collective == collective);
    let distances = alike.filter_map(|it| distance(profile, it, &it.choice()?, shape));
    distances.min().unwrap_or(i64::MAX)
}

/// The rows to take at the sizes, so that the sum of their losses, and of the changes, is least.
fn path(rows: &[Row]) -> Vec<usize> {
    let least = |costs: &[i64]| {
        let costs = costs.iter().enumerate();
        costs.min_by_key(|(_, cost)| **cost).map(|(at, _)| at)
    };
    let mut costs = vec![0; rows.len()];
    // From where the cheapest path to each row at each size comes.
    let mut from: Vec<Vec<usize>> = Vec::with_capacity(SIZES);
    for size in 0..SIZES {
        let surely = |row: &Row| row.times[size] + row.error;
        let (Some(fastest), Some(cheapest)) = (rows.iter().map(surely).min(), least(&costs)) else {
            return Vec::new();
        };
        let changed = costs[cheapest] + unit(CHANGE);
        let mut came = Vec::with_capacity(rows.len());
        for (at, (row, cost)) in rows.iter().zip(&mut costs).enumerate() {
            came.push(if *cost <= changed { at } else { cheapest });
            *cost = changed.min(*cost) + surely(row) - fastest;
        }
        from.push(came);
    }
    let mut at = least(&costs).unwrap_or(0);
    let mut taken = Vec::with_capacity(SIZES);
    for came in from.iter().rev() {
        taken.push(at);
        at = came[at];
    }
    taken.reverse();
    taken
}

/// The value at a size, on straight lines over the logarithms of sizes; `values` are those of sizes
/// from the place `first` on. Before the first size and after the last one it is as there. At other
/// sizes without a value it is that of [`BEHIND`] times the nearest one.
fn interpolate(sizes: &[u64], first: usize, values: &[f64], bytes: u64) -> f64 {
    let last = values.len().saturating_sub(1);
    let value = |place: usize| {
        let at = place.saturating_sub(first).min(last);
        let behind = if at + first == place {
            0.0
        } else {
            BEHIND.ln()
        };
        values.get(at).map_or(0.0, |it| it + behind)
    };
    let above = sizes.partition_point(|size| *size <= bytes);
    if above == 0 || above == sizes.len() {
        return value(above.saturating_sub(1));
    }
    let (low, high) = (sizes[above - 1] as f64, sizes[above] as f64);
    let share = (bytes as f64 / low).ln() / (high / low).ln();
    value(above - 1) + share * (value(above) - value(above - 1))
}

#[cfg(test)]
mod tests {
    use program::{ElementType, Protocol, Reduction, Schedule};

    use super::*;
    use crate::loss::request;

    #[test]
    fn values_between_sizes_are_on_a_straight_line() {
        let (sizes, values) = ([8, 32, 128], [1.0, 4.0, 5.0]);
        let at = |bytes| interpolate(&sizes, 0, &values, bytes);
        assert_eq!((at(1), at(32), at(512)), (1.0, 4.0, 5.0));
        assert!((at(16) - 2.5).abs() < 1e-9);
        assert_eq!(interpolate(&[], 0, &[], 64), 0.0);
        let only = |bytes| interpolate(&sizes, 1, &[1.0], bytes);
        let behind = 1.0 + BEHIND.ln();
        assert_eq!((only(8), only(32), only(128)), (behind, 1.0, behind));
    }

    fn shape(ranks: u32, one_process: bool, buffers: BufferAccess) -> CommunicatorShape {
        CommunicatorShape {
            ranks,
            one_process,
            hosts: 1,
            even_hosts: true,
            channels: 2,
            crowd: Crowd { ranks, cores: 2 },
            buffers,
        }
    }

    #[test]
    fn built_in_choices_change_seldom_from_size_to_size() {
        let profile = Profile::built_in();
        for collective in Collective::ALL {
            for ranks in [2, 3, 4, 8, 16] {
                for (one_process, buffers) in [
                    (true, BufferAccess::Mapped),
                    (false, BufferAccess::Mapped),
                    (false, BufferAccess::Kernel),
                ] {
                    let shape = shape(ranks, one_process, buffers);
                    let table =
                        ChoiceTable::new(&profile, Scale::NONE, &request(collective), shape);
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

    /// As logarithms of another machine's library may do.
    #[test]
    fn last_bits_do_not_change_a_choice() {
        let (profile, mut other) = (Profile::default(), Profile::default());
        other.measured.iter_mut().for_each(|it| {
            it.times_us
                .iter_mut()
                .for_each(|time| *time = time.next_up());
        });
        let Model {
            hop_us, copy_gb_s, ..
        } = &mut other.model;
        (*hop_us, *copy_gb_s) = (hop_us.next_down(), copy_gb_s.next_up());
        for collective in Collective::ALL {
            for ranks in [2, 3, 4, 8, 16, 64] {
                let shape = shape(ranks, false, BufferAccess::Mapped);
                let [taken, other] = [&profile, &other]
                    .map(|it| ChoiceTable::new(it, Scale::NONE, &request(collective), shape).taken);
                assert_eq!(taken, other, "{collective} {ranks}");
            }
        }
    }

    #[test]
    fn with_many_ranks_on_a_core_a_leader_does_the_work() {
        let profile = Profile::built_in();
        let chosen = |ranks, bytes| {
            let request = request(Collective::AllReduce);
            let shape = shape(ranks, false, BufferAccess::Mapped);
            let table = ChoiceTable::new(&profile, Scale::NONE, &request, shape);
            table.choose(bytes).map(|it| (it.schedule, it.channels))
        };
        let schedule = |ranks| chosen(ranks, 4 << 10).map(|it| it.0);
        assert_eq!(schedule(64), Some(Schedule::Leader));
        assert_eq!(schedule(1000), Some(Schedule::Leader));
        assert_eq!(chosen(64, 1 << 20), Some((Schedule::Leader, 2)));
    }

    /// Leaving out programs that take long to prove leaves some.
    #[test]
    fn every_collective_has_a_choice() {
        let profile = Profile::built_in();
        let flags = [false, true];
        let accesses = [
            BufferAccess::Mapped,
            BufferAccess::Kernel,
            BufferAccess::Refused,
        ];
        let mut accesses = accesses.into_iter().cycle();
        for ranks in [1, 2, 3, 16, 64, 65, 100, 256, 1000, 4096] {
            for (hosts, cores) in [(1, 1), (1, 2), (1, 128), (2, 2), (8, 2), (ranks, 2)] {
                for (one_process, in_place) in flags.map(|it| flags.map(|by| (it, by))).concat() {
                    let hosts = hosts.min(ranks);
                    let shape = CommunicatorShape {
                        hosts,
                        even_hosts: ranks.is_multiple_of(hosts),
                        crowd: Crowd { ranks, cores },
                        ..shape(ranks, one_process, accesses.next().unwrap_or_default())
                    };
                    for collective in Collective::ALL {
                        for reduction in [Reduction::Sum, Reduction::PreMultipliedSum] {
                            let request = Request {
                                element: ElementType::F32,
                                reduction,
                                in_place,
                                ..request(collective)
                            };
                            let table = ChoiceTable::new(&profile, Scale::NONE, &request, shape);
                            let choice = table.choose(400);
                            assert!(choice.is_some(), "{collective} {shape:?}");
                        }
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

    fn row(choice: usize, time: impl Fn(usize) -> f64, error: f64) -> Row {
        Row {
            choice: Choice {
                schedule: Schedule::ALL[choice],
                transfer: Transfer::Fifo,
                protocol: Protocol::Simple,
                channels: 1,
                piece_bytes: 0,
            },
            times: (0..SIZES).map(|it| unit(time(it).ln())).collect(),
            error: unit(error),
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
