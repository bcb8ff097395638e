//! Cost profiles: measured times, and a model for what was not measured.
//!
//! `topo run --calibrate` measures the choices that may be the fastest for some numbers of
//! processes, at some message sizes, and fits the model to the times. Threads differ little: by a
//! factor that all choices share.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock};

use executor::backend::CommunicatorShape;
use executor::bootstrap::Crowd;
use executor::connections::SlotBytes;
use executor::{BufferAccess, Choice};
use program::{Collective, Protocol, Schedule, Transfer};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::model::Model;
use crate::speeds::Speeds;

/// Version of the file format.
pub const FORMAT: u32 = 4;

/// The built-in profile.
pub const DEFAULT_TOML: &str = include_str!("../profiles/default.toml");

/// Most bytes of a piece of scratch memory, so that what is copied there is still in a cache when
/// others read it.
pub const STAGED_PIECE_BYTES: u32 = 256 << 10;

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
    /// Cores that the measured ranks shared.
    pub cores: u32,
    /// Message size from which non-temporal stores are used, bytes.
    pub stream_bytes: u64,
    /// Sizes of FIFO slots.
    pub slots: Slots,
    /// The machine's speeds in short measurements.
    pub speeds: Speeds,
    /// The model, for other numbers of ranks than the measured ones.
    pub model: Model,
    /// Measured message sizes over all ranks, ascending, bytes.
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
    /// How data moves: `fifo`, `direct` or `hierarchical`.
    pub transfer: String,
    /// The protocol.
    pub protocol: Protocol,
    /// Number of ranks.
    pub ranks: u32,
    /// Hosts as which the ranks acted.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub hosts: u32,
    /// Whether buffers were the caller's, not the communicator's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub callers_memory: bool,
    /// Channels.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub channels: u16,
    /// The place of the first measured one of the profile's sizes: the choice is too slow for
    /// smaller ones.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first: usize,
    /// Time at each of the profile's sizes from there on, µs. The list may end early: the choice
    /// is too slow for larger sizes.
    pub times_us: Vec<f64>,
}

fn one<T: From<u8>>() -> T {
    T::from(1)
}

fn is_one<T: From<u8> + PartialEq>(number: &T) -> bool {
    *number == one()
}

const fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// A profile that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{file}: {problem}")]
pub struct ProfileError {
    /// The file's name.
    pub file: String,
    /// The problem.
    pub problem: String,
}

impl MeasuredChoice {
    /// Creates an entry without times.
    pub fn new(
        collective: Collective,
        choice: &Choice,
        (ranks, hosts): (u32, u32),
        callers_memory: bool,
    ) -> Self {
        Self {
            collective,
            algorithm: choice.schedule.name().to_owned(),
            transfer: choice.transfer.name().to_owned(),
            protocol: choice.protocol,
            ranks,
            hosts,
            callers_memory,
            channels: choice.channels,
            first: 0,
            times_us: Vec::new(),
        }
    }

    /// Whether both entries are of the same choice, collective and ranks.
    pub fn is_like(&self, other: &Self) -> bool {
        let key = |it: &Self| {
            let shape = (it.ranks, it.hosts, it.callers_memory);
            (it.choice(), it.collective, shape)
        };
        key(self) == key(other)
    }

    /// The communicator that was measured, of ranks that shared so many cores.
    pub fn shape(&self, cores: u32) -> CommunicatorShape {
        CommunicatorShape {
            ranks: self.ranks,
            one_process: false,
            hosts: self.hosts,
            even_hosts: self.hosts > 0 && self.ranks.is_multiple_of(self.hosts),
            channels: u16::try_from(cores).unwrap_or(u16::MAX),
            crowd: Crowd {
                ranks: self.ranks,
                cores,
            },
            buffers: match self.callers_memory {
                true => BufferAccess::Kernel,
                false => BufferAccess::Mapped,
            },
        }
    }

    /// The choice; `None` if a name is unknown.
    pub fn choice(&self) -> Option<Choice> {
        let transfer = self.transfer.parse().ok()?;
        Some(Choice {
            schedule: self.algorithm.parse().ok()?,
            transfer,
            protocol: self.protocol,
            channels: self.channels,
            piece_bytes: match transfer {
                Transfer::Staged => STAGED_PIECE_BYTES,
                _ => 0,
            },
        })
    }
}

impl Default for Profile {
    /// The built-in profile.
    fn default() -> Self {
        Self::built_in().as_ref().clone()
    }
}

impl Profile {
    /// The built-in profile. It is parsed once: communicators of a process may be many.
    pub fn built_in() -> Arc<Self> {
        static BUILT_IN: LazyLock<Arc<Profile>> = LazyLock::new(|| {
            // A test parses it.
            let parsed = Profile::from_toml("the built-in CPU profile", DEFAULT_TOML);
            Arc::new(parsed.unwrap_or_else(|_| Profile::empty()))
        });
        Arc::clone(&BUILT_IN)
    }

    /// Creates a profile without measurements.
    pub fn empty() -> Self {
        Self {
            format: FORMAT,
            name: "empty".to_owned(),
            machine: String::new(),
            cores: 1,
            stream_bytes: 4 << 20,
            slots: Slots {
                ll: 16 << 10,
                ll128: 56 << 10,
                simple: 256 << 10,
            },
            speeds: Speeds::USUAL,
            model: Model::USUAL,
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
                "format = {}; expected {FORMAT}, so another version of topo wrote it: calibrate again",
                self.format
            ));
        }
        if !self.speeds.is_valid() {
            return Err("speeds: expected times above 0".to_owned());
        }
        if !self.model.is_valid() {
            return Err("model: expected times and rates above 0".to_owned());
        }
        if self.cores == 0 {
            return Err("cores = 0; expected at least 1".to_owned());
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
            if measured.choice().is_none() {
                let MeasuredChoice {
                    algorithm,
                    transfer,
                    ..
                } = measured;
                let schedules = Schedule::ALL.map(Schedule::name).join(" ");
                return Err(format!(
                    "{key}: algorithm `{algorithm}`, transfer `{transfer}`; expected an algorithm of {schedules} and \
                     a transfer of {}",
                    Transfer::ALL.map(Transfer::name).join(" ")
                ));
            }
            let sizes = self.sizes.len().saturating_sub(measured.first);
            if !(1..=sizes).contains(&measured.times_us.len()) {
                return Err(format!(
                    "{key}: {} times; expected 1 to {sizes}, one for each of the sizes from `first` on, or of the \
                     first of them",
                    measured.times_us.len(),
                ));
            }
            if measured.channels == 0 {
                return Err(format!("{key}: channels = 0; expected at least 1"));
            }
            let positive = |time: &f64| time.is_finite() && *time > 0.0;
            if !(1..=measured.ranks).contains(&measured.hosts) {
                return Err(format!(
                    "{key}: {} hosts of {} ranks; expected 1 to as many hosts as ranks",
                    measured.hosts, measured.ranks
                ));
            }
            if measured.ranks == 0 || !measured.times_us.iter().all(positive) {
                return Err(format!("{key}: expected ranks and times above 0"));
            }
        }
        Ok(())
    }

    /// A number that tells profiles apart by all that choices depend on.
    pub fn id(&self) -> u64 {
        // Not one with a random seed: other processes must get the same.
        let mut hash = DefaultHasher::new();
        (self.cores, &self.sizes).hash(&mut hash);
        let mut add = |numbers: &[f64]| {
            numbers.iter().for_each(|it| it.to_bits().hash(&mut hash));
        };
        add(&self.model.parameters());
        add(&self.speeds.times());
        for it in &self.measured {
            add(&it.times_us);
        }
        for it in &self.measured {
            let choice = (&it.algorithm, &it.transfer, it.protocol, it.channels);
            let shape = (it.ranks, it.hosts, it.callers_memory);
            (it.collective, choice, shape, it.first, it.times_us.len()).hash(&mut hash);
        }
        hash.finish()
    }

    /// Sizes of FIFO slots.
    pub const fn slot_bytes(&self) -> SlotBytes {
        SlotBytes {
            ll: self.slots.ll,
            ll128: self.slots.ll128,
            simple: self.slots.simple,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_profile_is_whole() {
        let profile = Profile::from_toml("default.toml", DEFAULT_TOML).map_err(|it| it.to_string());
        let profile = profile.expect("the file is right");
        for collective in Collective::ALL {
            for ranks in [2, 4, 8] {
                let whole = |it: &&MeasuredChoice| {
                    (it.collective, it.ranks) == (collective, ranks)
                        && it.times_us.len() == profile.sizes.len()
                };
                assert!(
                    profile.measured.iter().any(|it| whole(&it)),
                    "{collective} {ranks}"
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
            hosts: 1,
            callers_memory: false,
            channels: 1,
            first: 0,
            times_us: vec![1.0, 2.0],
        };
        profile.measured.push(measured.clone());
        assert_eq!(profile.check(), Ok(()));
        profile.measured[0].times_us = vec![1.0];
        assert_eq!(profile.check(), Ok(()), "it fell behind");
        profile.measured[0].first = 1;
        assert_eq!(
            profile.check(),
            Ok(()),
            "it is fast from the second size on"
        );
        profile.measured[0].first = 2;
        assert!(profile.check().is_err());
        profile.measured[0].first = 0;
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
}
