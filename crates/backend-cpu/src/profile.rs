//! The CPU's cost profile: how long each way took where it was measured, and the choice that follows.
//!
//! A profile is a table of measured times, as `topo calibrate` writes it: for some numbers of ranks, as threads and as
//! processes, every way at some message sizes. Between sizes times are interpolated, both on logarithmic scales; for
//! other numbers of ranks the nearest measured one stands in, for it is the order of the ways that matters.

use executor::backend::CommunicatorShape;
use executor::connections::SlotBytes;
use executor::{Choice, Request};
use plan::cost::{CostModel, Estimate};
use program::{Collective, Protocol, Reduction};
use program::{Schedule, Transfer};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The version of the files' format.
pub const FORMAT: u32 = 1;

/// The built-in profile's file.
pub const DEFAULT_TOML: &str = include_str!("../profiles/default.toml");

/// A profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Profile {
    /// Version of the format; [`FORMAT`].
    pub format: u32,
    /// Its name.
    pub name: String,
    /// On what it was measured.
    pub machine: String,
    /// Channels of a collective. Each rank has one thread, which more channels only give more lanes.
    pub channels: u16,
    /// Messages from which on results are stored past the caches, bytes.
    pub stream_bytes: u64,
    /// Sizes of FIFO slots.
    pub slots: Slots,
    /// Message sizes at which was measured, bytes, ascending; all ranks' pieces together.
    pub sizes: Vec<u64>,
    /// What was measured.
    #[serde(default)]
    pub ways: Vec<Measured>,
}

/// Data bytes of a FIFO slot, by protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Slots {
    /// Of LL.
    pub ll: u32,
    /// Of LL128.
    pub ll128: u32,
    /// Of Simple.
    pub simple: u32,
}

/// The times of one way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Measured {
    /// The collective.
    pub collective: Collective,
    /// The algorithm, by its name on the command line.
    pub algorithm: String,
    /// How a mesh moves data: `fifo` or `direct`.
    pub transfer: String,
    /// The protocol.
    pub protocol: Protocol,
    /// Ranks.
    pub ranks: u32,
    /// Whether ranks were threads of one process.
    pub threads: bool,
    /// Least time at each of the profile's sizes, µs. It may end before them: at larger sizes the way is too slow to be
    /// taken.
    pub times_us: Vec<f64>,
}

/// A profile that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}: {problem}")]
pub struct ProfileError {
    /// The file.
    pub file: String,
    /// What is wrong.
    pub problem: String,
}

impl Measured {
    /// What is still to be measured of a way.
    pub fn new(collective: Collective, way: &Choice, ranks: u32, threads: bool) -> Self {
        Self {
            collective,
            algorithm: way.schedule.name().to_owned(),
            transfer: way.transfer.name().to_owned(),
            protocol: way.protocol,
            ranks,
            threads,
            times_us: Vec::new(),
        }
    }

    /// Whether both are times of the same way in the same place.
    pub fn is_like(&self, other: &Self) -> bool {
        let way = |it: &Self| (it.way(1), it.collective, it.ranks, it.threads);
        way(self) == way(other)
    }

    /// The way.
    pub fn way(&self, channels: u16) -> Option<Choice> {
        Some(Choice {
            schedule: self.algorithm.parse().ok()?,
            transfer: self.transfer.parse().ok()?,
            protocol: self.protocol,
            channels,
            piece_bytes: 0,
        })
    }
}

impl Default for Profile {
    /// The built-in profile.
    fn default() -> Self {
        // A test reads it.
        Self::from_toml("the built-in CPU profile", DEFAULT_TOML).unwrap_or_else(|_| Self::empty())
    }
}

impl Profile {
    /// A profile in which nothing was measured.
    pub fn empty() -> Self {
        Self {
            format: FORMAT,
            name: "empty".to_owned(),
            machine: String::new(),
            channels: 1,
            stream_bytes: 4 << 20,
            slots: Slots {
                ll: 16 << 10,
                ll128: 56 << 10,
                simple: 256 << 10,
            },
            sizes: Vec::new(),
            ways: Vec::new(),
        }
    }

    /// Reads a profile. `file` is for messages.
    ///
    /// # Errors
    /// The text is no profile, of another version, or says things that do not fit together.
    pub fn from_toml(file: &str, text: &str) -> Result<Self, ProfileError> {
        let wrong = |problem: String| ProfileError {
            file: file.to_owned(),
            problem,
        };
        let profile: Self = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        profile.check().map_err(wrong)?;
        Ok(profile)
    }

    /// Writes it as a file.
    ///
    /// # Errors
    /// It cannot be written as TOML.
    pub fn to_toml(&self) -> Result<String, ProfileError> {
        toml::to_string(self).map_err(|error| ProfileError {
            file: self.name.clone(),
            problem: error.to_string(),
        })
    }

    fn check(&self) -> Result<(), String> {
        if self.format != FORMAT {
            return Err(format!(
                "format = {}; expected {FORMAT}, so another version of topo wrote it: run `topo calibrate` again",
                self.format
            ));
        }
        if self.channels == 0 {
            return Err("channels = 0; expected at least 1".to_owned());
        }
        for (name, bytes) in [
            ("ll", self.slots.ll),
            ("ll128", self.slots.ll128),
            ("simple", self.slots.simple),
        ] {
            if !(1024..=64 << 20).contains(&bytes) {
                return Err(format!(
                    "slots.{name} = {bytes}; expected 1024 to 67108864 bytes"
                ));
            }
        }
        if !self.sizes.is_sorted_by(|one, next| one < next) || self.sizes.first() == Some(&0) {
            return Err(
                "sizes: expected bytes from 1 on, each more than the one before".to_owned(),
            );
        }
        for (at, measured) in self.ways.iter().enumerate() {
            let place = format!("ways[{at}]");
            if measured.way(1).is_none() {
                let Measured {
                    algorithm,
                    transfer,
                    ..
                } = measured;
                let schedules = Schedule::ALL.map(Schedule::name).join(" ");
                return Err(format!(
                    "{place}: algorithm `{algorithm}`, transfer `{transfer}`; expected an algorithm of {schedules} and \
                     a transfer of fifo direct"
                ));
            }
            if !(1..=self.sizes.len()).contains(&measured.times_us.len()) {
                return Err(format!(
                    "{place}: {} times; expected one for each of the {} sizes, or of the first of them",
                    measured.times_us.len(),
                    self.sizes.len()
                ));
            }
            let positive = |time: &f64| time.is_finite() && *time > 0.0;
            if measured.ranks == 0 || !measured.times_us.iter().all(positive) {
                return Err(format!("{place}: expected ranks and times above 0"));
            }
        }
        Ok(())
    }

    /// FIFO slots.
    pub const fn slot_bytes(&self) -> SlotBytes {
        SlotBytes {
            ll: self.slots.ll,
            ll128: self.slots.ll128,
            simple: self.slots.simple,
        }
    }

    /// The model of a communicator.
    pub const fn of(&self, place: CommunicatorShape) -> Model<'_> {
        Model {
            profile: self,
            place,
        }
    }

    /// The way that a request takes: the fastest that was measured, or the one that needs no figures.
    pub fn choose(&self, request: &Request, place: CommunicatorShape) -> Option<Choice> {
        let model = self.of(place);
        let bytes = request.bytes(place.ranks);
        if !place.one_host {
            // What was measured between ranks of one host says nothing of a network.
            return Some(between_hosts(request, bytes));
        }
        let can = |estimate: &Estimate<Choice>| serves(request, &estimate.choice, place.ranks);
        let estimates = model.estimates(request.collective, bytes).into_iter();
        let best = estimates
            .filter(can)
            .min_by(|one, other| one.time_us.total_cmp(&other.time_us));
        Some(best.map_or_else(|| fallback(request, bytes), |best| best.choice))
    }

    /// Predicted time of a way, µs; `None` if it was not measured.
    pub fn predict(
        &self,
        request: &Request,
        way: &Choice,
        place: CommunicatorShape,
    ) -> Option<f64> {
        if !place.one_host {
            return None;
        }
        let bytes = request.bytes(place.ranks);
        let estimates = self.of(place).estimates(request.collective, bytes);
        let same = |it: &Estimate<Choice>| {
            (it.choice.schedule, it.choice.transfer) == (way.schedule, way.transfer)
                && (way.transfer == Transfer::Direct || it.choice.protocol == way.protocol)
        };
        Some(estimates.into_iter().find(same)?.time_us)
    }
}

/// Whether a request can be carried out so.
pub fn serves(request: &Request, way: &Choice, ranks: u32) -> bool {
    let collective = request.collective;
    if !way.schedule.serves(collective, way.transfer) {
        return false;
    }
    // What is read where it is must not be multiplied first, be overwritten meanwhile, or belong to a group.
    let multiplies = collective.reduces() && request.reduction == Reduction::PreMultipliedSum;
    let overwritten = collective == Collective::AllToAll && request.in_place && ranks > 1;
    way.transfer == Transfer::Fifo
        || !(multiplies || overwritten || collective == Collective::SendRecv)
}

/// All ways of a request, each with one channel.
pub fn ways(request: &Request, ranks: u32) -> Vec<Choice> {
    let mut ways = Vec::new();
    for schedule in Schedule::ALL {
        for transfer in Transfer::ALL {
            for protocol in Protocol::ALL {
                let way = Choice {
                    schedule,
                    transfer,
                    protocol,
                    channels: 1,
                    piece_bytes: 0,
                };
                // A direct transfer has no protocol; it is listed once.
                let once = transfer == Transfer::Fifo || protocol == Protocol::Simple;
                if once && serves(request, &way, ranks) {
                    ways.push(way);
                }
            }
        }
    }
    ways
}

/// A way that always works, for what was not measured.
fn fallback(request: &Request, bytes: u64) -> Choice {
    let ring = Schedule::Ring.serves(request.collective, Transfer::Fifo);
    Choice {
        schedule: if ring && bytes > 64 << 10 {
            Schedule::Ring
        } else {
            Schedule::Mesh
        },
        transfer: Transfer::Fifo,
        protocol: if bytes > 64 << 10 {
            Protocol::Simple
        } else {
            Protocol::Ll
        },
        channels: 1,
        piece_bytes: 0,
    }
}

/// Messages between hosts up to so many bytes go by LL, which tells nobody that a slot was posted.
const MOST_REMOTE_LL: u64 = 2 << 10;

/// Messages between hosts up to so many bytes go to all ranks at once. Longer ones go round.
const MOST_REMOTE_MESH: u64 = 64 << 10;

/// The way between hosts. By these limits all-reduce of two hosts over TCP was fastest, as far as that was measured; over one
/// channel, for each connection more costs calls of the kernel.
fn between_hosts(request: &Request, bytes: u64) -> Choice {
    let short = bytes <= MOST_REMOTE_MESH;
    let rings = Schedule::Ring.serves(request.collective, Transfer::Fifo);
    Choice {
        schedule: match short || !rings {
            true => Schedule::Mesh,
            false => Schedule::Ring,
        },
        transfer: Transfer::Fifo,
        protocol: match bytes <= MOST_REMOTE_LL {
            true => Protocol::Ll,
            false => Protocol::Simple,
        },
        channels: 1,
        piece_bytes: 0,
    }
}

/// What a profile says of one communicator.
#[derive(Debug, Clone, Copy)]
pub struct Model<'a> {
    profile: &'a Profile,
    place: CommunicatorShape,
}

impl CostModel for Model<'_> {
    type Choice = Choice;

    fn ranks(&self) -> u32 {
        self.place.ranks
    }

    fn estimates(&self, collective: Collective, bytes: u64) -> Vec<Estimate<Choice>> {
        let of_kind =
            |it: &&Measured| it.collective == collective && it.threads == self.place.one_process;
        let ways = self.profile.ways.iter().filter(of_kind);
        // The number of ranks whose logarithm is nearest; of equals the smaller.
        let distance = |ranks: u32| {
            let (one, other) = (f64::from(ranks), f64::from(self.place.ranks.max(1)));
            (one.ln() - other.ln()).abs()
        };
        let nearest = ways.clone().map(|it| it.ranks).min_by(|one, other| {
            distance(*one)
                .total_cmp(&distance(*other))
                .then(one.cmp(other))
        });
        let ways = ways.filter(|it| Some(it.ranks) == nearest);
        let estimate = |it: &Measured| {
            Some(Estimate {
                choice: it.way(self.profile.channels.min(self.place.channels))?,
                time_us: interpolate(&self.profile.sizes, &it.times_us, bytes)?,
            })
        };
        ways.filter_map(estimate).collect()
    }
}

/// The time at a size, between the measured ones on logarithmic scales; beyond the largest in proportion. None beyond
/// times that end before the sizes do.
fn interpolate(sizes: &[u64], times: &[f64], bytes: u64) -> Option<f64> {
    let (first, last) = (sizes.first()?, sizes.last()?);
    if bytes <= *first {
        return times.first().copied();
    }
    if bytes >= *last {
        return Some(times.get(sizes.len() - 1)? * bytes as f64 / *last as f64);
    }
    let above = sizes.partition_point(|size| *size <= bytes);
    let (low, high) = (sizes[above - 1] as f64, sizes[above] as f64);
    let share = (bytes as f64 / low).ln() / (high / low).ln();
    let (before, after) = (times.get(above - 1)?.ln(), times.get(above)?.ln());
    Some((before + share * (after - before)).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_profile_is_whole() {
        let profile = Profile::from_toml("default.toml", DEFAULT_TOML).map_err(|it| it.to_string());
        let profile = profile.expect("the file is right");
        for collective in Collective::ALL {
            for (ranks, threads) in [(2, true), (2, false), (4, true), (4, false)] {
                let whole = |it: &&Measured| {
                    (it.collective, it.ranks, it.threads) == (collective, ranks, threads)
                        && it.times_us.len() == profile.sizes.len()
                };
                assert!(
                    profile.ways.iter().any(|it| whole(&it)),
                    "{collective} {ranks} {threads}"
                );
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut profile = Profile::empty();
        profile.sizes = vec![8, 64];
        let measured = Measured {
            collective: Collective::AllReduce,
            algorithm: "ring".to_owned(),
            transfer: "fifo".to_owned(),
            protocol: Protocol::Ll,
            ranks: 2,
            threads: true,
            times_us: vec![1.0, 2.0],
        };
        profile.ways.push(measured.clone());
        assert_eq!(profile.check(), Ok(()));
        profile.ways[0].times_us = vec![1.0];
        assert_eq!(profile.check(), Ok(()), "it fell behind");
        profile.ways[0].times_us = vec![1.0, 2.0, 3.0];
        assert!(profile.check().is_err());
        profile.ways[0] = Measured {
            algorithm: "rings".to_owned(),
            ..measured
        };
        assert!(
            profile
                .check()
                .is_err_and(|problem| problem.contains("ring tree"))
        );
    }

    #[test]
    fn times_between_sizes_are_on_a_straight_line_of_logarithms() {
        let (sizes, times) = ([8, 32], [1.0, 4.0]);
        assert_eq!(interpolate(&sizes, &times, 1), Some(1.0));
        assert!(interpolate(&sizes, &times, 16).is_some_and(|time| (time - 2.0).abs() < 1e-9));
        assert_eq!(interpolate(&sizes, &times, 64), Some(8.0));
        assert_eq!(interpolate(&[], &[], 64), None);
        assert_eq!(interpolate(&sizes, &times[..1], 16), None);
        assert_eq!(interpolate(&sizes, &times[..1], 64), None);
        assert_eq!(interpolate(&sizes, &times[..1], 8), Some(1.0));
    }
}
