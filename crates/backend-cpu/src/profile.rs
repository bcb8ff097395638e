//! Cost profiles: measured times, and the choice that follows from them.
//!
//! `topo calibrate` measures every choice for some numbers of ranks, as threads and as processes,
//! at some message sizes. Between two sizes, times are interpolated on logarithmic scales. The
//! nearest measured number of ranks is used for others, because the order of the choices matters
//! more than their times.

use executor::backend::CommunicatorShape;
use executor::connections::SlotBytes;
use executor::{Choice, Request};
use plan::cost::{CostModel, Estimate};
use program::{Collective, Protocol, Reduction};
use program::{Schedule, Transfer};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Version of the file format.
pub const FORMAT: u32 = 1;

/// The built-in profile.
pub const DEFAULT_TOML: &str = include_str!("../profiles/default.toml");

/// A cost profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Profile {
    /// Version of the format, [`FORMAT`].
    pub format: u32,
    /// The profile's name.
    pub name: String,
    /// The machine on which it was measured.
    pub machine: String,
    /// Channels of a collective. Each rank has one thread, so more channels only add lanes.
    pub channels: u16,
    /// Message size from which non-temporal stores are used, bytes.
    pub stream_bytes: u64,
    /// Sizes of FIFO slots.
    pub slots: Slots,
    /// MeasuredChoice message sizes over all ranks, ascending, bytes.
    pub sizes: Vec<u64>,
    /// The measured choices.
    #[serde(default, rename = "ways")]
    pub measured: Vec<MeasuredChoice>,
}

/// Data bytes of a FIFO slot, by protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Slots {
    /// LL.
    pub ll: u32,
    /// LL128.
    pub ll128: u32,
    /// Simple.
    pub simple: u32,
}

/// The times of one choice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MeasuredChoice {
    /// The collective.
    pub collective: Collective,
    /// The algorithm, by its name on the command line.
    pub algorithm: String,
    /// How data moves: `fifo` or `direct`.
    pub transfer: String,
    /// The protocol.
    pub protocol: Protocol,
    /// Number of ranks.
    pub ranks: u32,
    /// Whether ranks were threads of one process.
    pub threads: bool,
    /// Least time at each of the profile's sizes, µs. The list may end early: the choice is too
    /// slow for larger sizes.
    pub times_us: Vec<f64>,
}

/// A profile that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}: {problem}")]
pub struct ProfileError {
    /// The file's name.
    pub file: String,
    /// What is wrong.
    pub problem: String,
}

impl MeasuredChoice {
    /// Creates an entry without times.
    pub fn new(collective: Collective, choice: &Choice, ranks: u32, threads: bool) -> Self {
        Self {
            collective,
            algorithm: choice.schedule.name().to_owned(),
            transfer: choice.transfer.name().to_owned(),
            protocol: choice.protocol,
            ranks,
            threads,
            times_us: Vec::new(),
        }
    }

    /// Whether both entries are of the same choice, collective and ranks.
    pub fn is_like(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.choice(1), it.collective, it.ranks, it.threads);
        key(self) == key(other)
    }

    /// The choice, with so many channels; `None` if a name is unknown.
    pub fn choice(&self, channels: u16) -> Option<Choice> {
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
    fn default() -> Self {
        // A test parses it.
        Self::from_toml("the built-in CPU profile", DEFAULT_TOML).unwrap_or_else(|_| Self::empty())
    }
}

impl Profile {
    /// Creates a profile without measurements.
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
            measured: Vec::new(),
        }
    }

    /// Parses a profile. `file` is its name in messages.
    ///
    /// # Errors
    /// The text is not a profile, has another version, or is inconsistent.
    pub fn from_toml(file: &str, text: &str) -> Result<Self, ProfileError> {
        let wrong = |problem: String| ProfileError {
            file: file.to_owned(),
            problem,
        };
        let profile: Self = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        profile.check().map_err(wrong)?;
        Ok(profile)
    }

    /// Writes the profile as TOML.
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
        for (at, measured) in self.measured.iter().enumerate() {
            let key = format!("ways[{at}]");
            if measured.choice(1).is_none() {
                let MeasuredChoice {
                    algorithm,
                    transfer,
                    ..
                } = measured;
                let schedules = Schedule::ALL.map(Schedule::name).join(" ");
                return Err(format!(
                    "{key}: algorithm `{algorithm}`, transfer `{transfer}`; expected an algorithm of {schedules} and \
                     a transfer of fifo direct"
                ));
            }
            if !(1..=self.sizes.len()).contains(&measured.times_us.len()) {
                return Err(format!(
                    "{key}: {} times; expected one for each of the {} sizes, or of the first of them",
                    measured.times_us.len(),
                    self.sizes.len()
                ));
            }
            let positive = |time: &f64| time.is_finite() && *time > 0.0;
            if measured.ranks == 0 || !measured.times_us.iter().all(positive) {
                return Err(format!("{key}: expected ranks and times above 0"));
            }
        }
        Ok(())
    }

    /// Sizes of FIFO slots.
    pub const fn slot_bytes(&self) -> SlotBytes {
        SlotBytes {
            ll: self.slots.ll,
            ll128: self.slots.ll128,
            simple: self.slots.simple,
        }
    }

    /// The cost model of a communicator.
    pub const fn of(&self, shape: CommunicatorShape) -> ProfileModel<'_> {
        ProfileModel {
            profile: self,
            shape,
        }
    }

    /// The fastest measured choice for a request; a fixed default if none was measured.
    pub fn choose(&self, request: &Request, shape: CommunicatorShape) -> Option<Choice> {
        let model = self.of(shape);
        let bytes = request.bytes(shape.ranks);
        if !shape.one_host {
            // Measurements between ranks of one host do not apply to a network.
            return Some(between_hosts(request, bytes));
        }
        let can = |estimate: &Estimate<Choice>| serves(request, &estimate.choice, shape.ranks);
        let estimates = model.estimates(request.collective, bytes).into_iter();
        let best = estimates
            .filter(can)
            .min_by(|one, other| one.time_us.total_cmp(&other.time_us));
        Some(best.map_or_else(|| fallback(request, bytes), |best| best.choice))
    }

    /// Predicted time of a choice, µs; `None` if it was not measured.
    pub fn predict(
        &self,
        request: &Request,
        choice: &Choice,
        shape: CommunicatorShape,
    ) -> Option<f64> {
        if !shape.one_host {
            return None;
        }
        let bytes = request.bytes(shape.ranks);
        let estimates = self.of(shape).estimates(request.collective, bytes);
        let same = |it: &Estimate<Choice>| {
            (it.choice.schedule, it.choice.transfer) == (choice.schedule, choice.transfer)
                && (choice.transfer == Transfer::Direct || it.choice.protocol == choice.protocol)
        };
        Some(estimates.into_iter().find(same)?.time_us)
    }
}

/// Whether a choice can carry out a request.
pub fn serves(request: &Request, choice: &Choice, ranks: u32) -> bool {
    let collective = request.collective;
    if !choice.schedule.serves(collective, choice.transfer) {
        return false;
    }
    // A direct transfer reads its sources in shape: it cannot multiply them first, they must not be
    // overwritten during the transfer, and the peers of a group have no buffer tables.
    let multiplies = collective.reduces() && request.reduction == Reduction::PreMultipliedSum;
    let overwritten = collective == Collective::AllToAll && request.in_place && ranks > 1;
    choice.transfer == Transfer::Fifo
        || !(multiplies || overwritten || collective == Collective::SendRecv)
}

/// All choices for a request, each with one channel.
pub fn choices(request: &Request, ranks: u32) -> Vec<Choice> {
    let mut choices = Vec::new();
    for schedule in Schedule::ALL {
        for transfer in Transfer::ALL {
            for protocol in Protocol::ALL {
                let choice = Choice {
                    schedule,
                    transfer,
                    protocol,
                    channels: 1,
                    piece_bytes: 0,
                };
                // A direct transfer has no protocol; it is listed once.
                let once = transfer == Transfer::Fifo || protocol == Protocol::Simple;
                if once && serves(request, &choice, ranks) {
                    choices.push(choice);
                }
            }
        }
    }
    choices
}

/// A choice that always works.
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

/// Largest message between hosts sent with LL, which rings no bell for posted slots, bytes.
const MOST_REMOTE_LL: u64 = 2 << 10;

/// Largest message between hosts sent to all ranks at once instead of around a ring, bytes.
const MOST_REMOTE_MESH: u64 = 64 << 10;

/// The choice between hosts. These limits made an all-reduce over TCP between two hosts fastest.
/// One channel, because each connection costs system calls.
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

/// The cost model of one communicator.
#[derive(Debug, Clone, Copy)]
pub struct ProfileModel<'a> {
    profile: &'a Profile,
    shape: CommunicatorShape,
}

impl CostModel for ProfileModel<'_> {
    type Choice = Choice;

    fn ranks(&self) -> u32 {
        self.shape.ranks
    }

    fn estimates(&self, collective: Collective, bytes: u64) -> Vec<Estimate<Choice>> {
        let of_kind = |it: &&MeasuredChoice| {
            it.collective == collective && it.threads == self.shape.one_process
        };
        let measured = self.profile.measured.iter().filter(of_kind);
        // The nearest number of ranks on a logarithmic scale; the smaller of two equally near.
        let distance = |ranks: u32| {
            let (one, other) = (f64::from(ranks), f64::from(self.shape.ranks.max(1)));
            (one.ln() - other.ln()).abs()
        };
        let nearest = measured.clone().map(|it| it.ranks).min_by(|one, other| {
            distance(*one)
                .total_cmp(&distance(*other))
                .then(one.cmp(other))
        });
        let measured = measured.filter(|it| Some(it.ranks) == nearest);
        let estimate = |it: &MeasuredChoice| {
            Some(Estimate {
                choice: it.choice(self.profile.channels.min(self.shape.channels))?,
                time_us: interpolate(&self.profile.sizes, &it.times_us, bytes)?,
            })
        };
        measured.filter_map(estimate).collect()
    }
}

/// Interpolates the time at a size on logarithmic scales; beyond the largest size proportionally.
/// `None` where `times` ends before `sizes`.
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
                let whole = |it: &&MeasuredChoice| {
                    (it.collective, it.ranks, it.threads) == (collective, ranks, threads)
                        && it.times_us.len() == profile.sizes.len()
                };
                assert!(
                    profile.measured.iter().any(|it| whole(&it)),
                    "{collective} {ranks} {threads}"
                );
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut profile = Profile::empty();
        profile.sizes = vec![8, 64];
        let measured = MeasuredChoice {
            collective: Collective::AllReduce,
            algorithm: "ring".to_owned(),
            transfer: "fifo".to_owned(),
            protocol: Protocol::Ll,
            ranks: 2,
            threads: true,
            times_us: vec![1.0, 2.0],
        };
        profile.measured.push(measured.clone());
        assert_eq!(profile.check(), Ok(()));
        profile.measured[0].times_us = vec![1.0];
        assert_eq!(profile.check(), Ok(()), "it fell behind");
        profile.measured[0].times_us = vec![1.0, 2.0, 3.0];
        assert!(profile.check().is_err());
        profile.measured[0] = MeasuredChoice {
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
