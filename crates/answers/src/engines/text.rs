//! Values of the facts that are texts: sizes, numbers of GPUs, architectures, types.

use std::collections::BTreeMap;

use plan::cost::DataType;
use program::size;
use serde::{Deserialize, Deserializer, de};

use crate::values::numbers;

/// Most GPUs that a rule names.
const MOST_RANKS: usize = 256;

/// Types of elements: `bf16,f16`.
#[derive(Debug, Clone)]
pub struct Types(pub Vec<DataType>);

/// Numbers of GPUs: `2,4,8-16`.
#[derive(Debug, Clone)]
pub struct Ranks(pub Vec<u32>);

/// Compute capabilities: `9.0`, `10.x`, `>=9.0`, `<10.0`, `*`; several with commas.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Architectures(Vec<Architecture>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Architecture {
    /// From the first to before the second, compute capability × 10.
    Between(i32, i32),
    Any,
}

/// Ranges of sizes: `..64M`, `..<8M`, `32K..`, `..16K|512K..`, `*`.
#[derive(Debug, Clone)]
pub struct Spans(pub Vec<(u64, u64)>);

/// Sizes by architecture and number of GPUs.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum ByArchitecture {
    /// For all.
    All(Spans),
    /// For each.
    Each(BTreeMap<Architectures, ByRanks>),
}

/// Sizes by number of GPUs; `*` are all others.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum ByRanks {
    /// For all.
    All(Spans),
    /// For each.
    Each(BTreeMap<String, Spans>),
}

impl ByArchitecture {
    /// The sizes for such GPUs.
    pub fn of(&self, sm: i32, ranks: u32) -> Option<&Spans> {
        let all = match self {
            Self::All(all) => return Some(all),
            Self::Each(all) => all,
        };
        match of_architecture(all, sm)? {
            ByRanks::All(all) => Some(all),
            ByRanks::Each(each) => each.get(&ranks.to_string()).or_else(|| each.get("*")),
        }
    }
}

/// The entry of an architecture; `*` has all others.
pub fn of_architecture<T>(all: &BTreeMap<Architectures, T>, sm: i32) -> Option<&T> {
    let named = |it: &&Architectures| !it.0.contains(&Architecture::Any) && it.has(sm);
    let own = all.keys().find(named);
    let rest = || all.keys().find(|it| it.0.contains(&Architecture::Any));
    own.or_else(rest).and_then(|it| all.get(it))
}

impl Architectures {
    /// Whether it has a compute capability × 10.
    pub fn has(&self, sm: i32) -> bool {
        self.0.iter().any(|it| match it {
            Architecture::Between(first, end) => (*first..*end).contains(&sm),
            Architecture::Any => true,
        })
    }

    fn read(text: &str) -> Result<Self, String> {
        let number = |text: &str| -> Option<i32> {
            let (major, minor) = text.split_once('.')?;
            Some(major.parse::<i32>().ok()? * 10 + minor.parse::<i32>().ok()?)
        };
        let one = |text: &str| -> Option<Architecture> {
            if text == "*" {
                return Some(Architecture::Any);
            }
            let (first, end) = if let Some(text) = text.strip_prefix(">=") {
                (number(text)?, i32::MAX)
            } else if let Some(text) = text.strip_prefix('<') {
                (0, number(text)?)
            } else if let Some(major) = text.strip_suffix(".x") {
                let major: i32 = major.parse().ok()?;
                (major * 10, major * 10 + 10)
            } else {
                (number(text)?, number(text)? + 1)
            };
            Some(Architecture::Between(first, end))
        };
        let all: Option<Vec<Architecture>> = text.split(',').map(|it| one(it.trim())).collect();
        all.map(Self)
            .ok_or_else(|| format!("`{text}`: no compute capabilities; expected such as 9.0,10.x"))
    }
}

impl Spans {
    fn read(text: &str) -> Result<Self, String> {
        let one = |text: &str| -> Result<(u64, u64), String> {
            if text == "*" {
                return Ok((0, u64::MAX));
            }
            let none = || format!("`{text}`: no sizes; expected such as ..64M");
            let (from, to) = text.split_once("..").ok_or_else(none)?;
            let end = |text: &str, open: u64| match text {
                "" => Ok(open),
                text => size::parse(text),
            };
            let to = match to.strip_prefix('<') {
                Some(below) => size::parse(below)? - 1,
                None => end(to, u64::MAX)?,
            };
            Ok((end(from, 0)?, to))
        };
        text.split('|').map(one).collect::<Result<_, _>>().map(Self)
    }

    /// Whether a size is in one of them.
    pub fn has(&self, size: u64) -> bool {
        self.0
            .iter()
            .any(|(from, to)| (*from..=*to).contains(&size))
    }
}

macro_rules! read_from_text {
    ($($name:ident: $read:expr;)*) => {
        $(impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let read: fn(&str) -> Result<Self, String> = $read;
                read(&String::deserialize(from)?).map_err(de::Error::custom)
            }
        })*
    };
}

read_from_text! {
    Types: |text| text.split(',').map(|it| it.parse().map_err(|_| format!("no type {it}"))).collect::<Result<_, _>>().map(Self);
    Ranks: |text| numbers(text, MOST_RANKS).map(Self);
    Architectures: Self::read;
    Spans: Self::read;
}
