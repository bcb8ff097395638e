//! The fields of a flight recorder, as PyTorch writes them: versions 1 and 2 of its form.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};

use super::{Entry, MOST_OF_ONE, State};
use crate::evidence::bounded::{Count, Few, FewNamed, Last, Short};
use crate::evidence::symbols::Symbols;

/// Most groups, tensors of an entry, dimensions and frames that are read.
const GROUPS: usize = 1 << 14;
const TENSORS: usize = 1 << 10;
const DIMENSIONS: usize = 16;
const FRAMES: usize = 64;

/// Most ranks of a group.
const RANKS: usize = 1 << 20;

/// A recorder.
#[derive(Debug, Deserialize)]
pub(super) struct RawDump {
    #[serde(default)]
    pub(super) version: Short,
    #[serde(default)]
    pub(super) pg_config: FewNamed<RawGroup, GROUPS>,
    #[serde(default)]
    pub(super) entries: Last<RawEntry, MOST_OF_ONE>,
    #[serde(default)]
    rank: Option<Count>,
    #[serde(default, alias = "hostname", alias = "host")]
    host_name: Option<Short>,
}

impl RawDump {
    pub(super) const fn is_empty(&self) -> bool {
        self.entries.0.is_empty() && self.pg_config.0.is_empty()
    }

    pub(super) fn rank(&self) -> Option<u32> {
        u32::try_from(self.rank?.0).ok()
    }

    pub(super) fn host(&self) -> Option<String> {
        let name = self.host_name.as_ref()?;
        Some(name.0.clone()).filter(|it| !it.is_empty())
    }
}

/// A group.
#[derive(Debug, Deserialize)]
pub(super) struct RawGroup {
    #[serde(default)]
    pub(super) name: Short,
    #[serde(default)]
    pub(super) desc: Short,
    #[serde(default)]
    pub(super) ranks: Ranks,
}

/// Ranks, sorted: a list, or its text `[0, 1, 2]`.
#[derive(Debug, Default)]
pub(super) struct Ranks(pub(super) Vec<u32>);

impl Ranks {
    fn of(mut ranks: Vec<u32>) -> Self {
        ranks.sort_unstable();
        ranks.dedup();
        Self(ranks)
    }
}

impl<'de> Deserialize<'de> for Ranks {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Ranks;

            fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
                text.write_str("a list of ranks")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Ranks, E> {
                let numbers = text.split(|it: char| !it.is_ascii_digit());
                let numbers = numbers.filter_map(|it| it.parse().ok());
                Ok(Ranks::of(numbers.take(RANKS).collect()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Ranks, A::Error> {
                let mut ranks = Vec::new();
                while let Some(Count(rank)) = all.next_element()? {
                    if ranks.len() < RANKS {
                        ranks.extend(u32::try_from(rank));
                    }
                }
                Ok(Ranks::of(ranks))
            }

            fn visit_unit<E: Error>(self) -> Result<Ranks, E> {
                Ok(Ranks::default())
            }
        }
        deserializer.deserialize_any(List)
    }
}

/// A call.
#[derive(Debug, Deserialize)]
pub(super) struct RawEntry {
    #[serde(default)]
    record_id: Option<Count>,
    #[serde(default)]
    process_group: Few<Short, 2>,
    #[serde(default)]
    pg_name: Option<Short>,
    #[serde(default, alias = "seq_id")]
    collective_seq_id: Count,
    #[serde(default)]
    p2p_seq_id: Count,
    #[serde(default)]
    profiling_name: Short,
    #[serde(default)]
    time_created_ns: Count,
    #[serde(default)]
    time_discovered_completed_ns: Count,
    #[serde(default)]
    input_sizes: Few<Few<Count, DIMENSIONS>, TENSORS>,
    #[serde(default)]
    output_sizes: Few<Few<Count, DIMENSIONS>, TENSORS>,
    #[serde(default)]
    input_dtypes: Few<Short, TENSORS>,
    #[serde(default)]
    output_dtypes: Few<Short, TENSORS>,
    #[serde(default)]
    state: Short,
    #[serde(default)]
    timeout_ms: Count,
    #[serde(default)]
    is_p2p: bool,
    #[serde(default)]
    frames: Few<RawFrame, FRAMES>,
}

/// A frame of the program.
#[derive(Debug, Deserialize)]
struct RawFrame {
    #[serde(default)]
    name: Short,
    #[serde(default)]
    filename: Short,
    #[serde(default)]
    line: Count,
}

impl RawEntry {
    /// Whether it says its place among all calls.
    pub(super) const fn has_place(&self) -> bool {
        self.record_id.is_some()
    }

    /// The group's name and description.
    pub(super) fn group(&self) -> (&str, &str) {
        let pair = &self.process_group.0;
        let name = pair.first().or(self.pg_name.as_ref());
        (
            name.map_or("", |it| it.0.as_str()),
            pair.get(1).map_or("", |it| it.0.as_str()),
        )
    }

    pub(super) fn read(&self, group: u32, symbols: &mut Symbols) -> Entry {
        let name = self.profiling_name.0.as_str();
        let function = name.split_once(':').map_or(name, |(_, function)| function);
        let is_point_to_point =
            self.is_p2p || function.starts_with("send ") || function.starts_with("recv ");
        let sequence = match is_point_to_point {
            true => self.p2p_seq_id,
            false => self.collective_seq_id,
        };
        let state = match self.state.0.as_str() {
            "completed" => State::Completed,
            "started" => State::Started,
            _ => State::Scheduled,
        };
        let mut types: Vec<&str> = Vec::new();
        for it in self.input_dtypes.0.iter().chain(&self.output_dtypes.0) {
            if !types.contains(&it.0.as_str()) {
                types.push(&it.0);
            }
        }
        Entry {
            record: positive(self.record_id.unwrap_or_default()),
            group,
            sequence: positive(sequence),
            function: symbols.add(function.trim()),
            elements: [
                elements(&self.input_sizes.0),
                elements(&self.output_sizes.0),
            ],
            sizes: [
                symbols.add(&sizes(&self.input_sizes.0)),
                symbols.add(&sizes(&self.output_sizes.0)),
            ],
            types: symbols.add(&types.join(", ")),
            frame: symbols.add(&self.frame()),
            times: [
                positive(self.time_created_ns),
                positive(self.time_discovered_completed_ns),
            ],
            timeout: positive(self.timeout_ms),
            state,
            is_point_to_point,
        }
    }

    /// The first frame outside of PyTorch: `function (file:line)`.
    fn frame(&self) -> String {
        let is_own = |it: &&RawFrame| {
            let file = &it.filename.0;
            file.ends_with(".py") && !file.contains("/torch/") && !file.starts_with("torch/")
        };
        let Some(frame) = self.frames.0.iter().find(is_own) else {
            return String::new();
        };
        let file = frame.filename.0.rsplit('/').next().unwrap_or_default();
        format!("{} ({file}:{})", frame.name.0, frame.line.0)
    }
}

fn positive(count: Count) -> u64 {
    u64::try_from(count.0).unwrap_or(0)
}

fn elements<const N: usize>(sizes: &[Few<Count, N>]) -> u64 {
    let of_one = |it: &Few<Count, N>| {
        it.0.iter()
            .map(|it| positive(*it))
            .fold(1, u64::saturating_mul)
    };
    sizes.iter().map(of_one).fold(0, u64::saturating_add)
}

/// Sizes as text: `[1024, 8]`, and for many tensors the first ones.
fn sizes<const N: usize>(sizes: &[Few<Count, N>]) -> String {
    const SHOWN: usize = 4;
    let of_one = |it: &Few<Count, N>| {
        let numbers: Vec<String> = it.0.iter().map(|it| it.0.to_string()).collect();
        format!("[{}]", numbers.join(", "))
    };
    let shown: Vec<String> = sizes.iter().take(SHOWN).map(of_one).collect();
    match sizes.len().saturating_sub(SHOWN) {
        0 => shown.join(" "),
        more => format!("{} and {more} more", shown.join(" ")),
    }
}
