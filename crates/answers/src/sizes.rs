//! Message sizes and collectives as people write them, and as JSON.

use std::str::FromStr;

use plan::cost::doubling;
use program::Collective;
use program::size::parse;
use serde::{Deserialize, Deserializer, de};

use crate::JsonSchema;
use crate::names::collective;

/// Most sizes of a question.
pub const MOST: usize = 10_000;

/// One size, or those from one to another, bytes: `64K`, `1K..8G`; in JSON also a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "SizesText")]
pub struct Sizes {
    from: u64,
    to: u64,
}

impl Sizes {
    /// Those that are priced and compared if none are named: 1 KiB to 8 GiB.
    pub const USUAL: Self = Self::range(1 << 10, 8 << 30);

    /// All sizes from one to another, bytes.
    pub const fn range(from: u64, to: u64) -> Self {
        Self { from, to }
    }

    /// Each of these, bytes.
    pub fn each(sizes: &[u64]) -> Vec<Self> {
        sizes.iter().map(|size| Self::range(*size, *size)).collect()
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once("..").unwrap_or((text, text));
        let (from, to) = (parse(from)?, parse(to)?);
        if from > to {
            return Err(format!(
                "{text}: the range ends before it begins; expected the smaller size first"
            ));
        }
        Ok(Self { from, to })
    }
}

/// How JSON writes [`Sizes`].
#[derive(Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected a number of bytes, or text such as 1K..8G"
)]
enum SizesText {
    /// One size, bytes.
    Number(u64),
    /// `64K`, or a range `1K..8G`.
    Text(String),
}

impl TryFrom<SizesText> for Sizes {
    type Error = String;

    fn try_from(written: SizesText) -> Result<Self, String> {
        match written {
            SizesText::Number(bytes) => bytes.to_string().parse(),
            SizesText::Text(text) => text.parse(),
        }
    }
}

/// Those that are priced and compared if none are named, bytes: 1 KiB to 8 GiB.
pub fn usual() -> Vec<u64> {
    doubling(Sizes::USUAL.from, Sizes::USUAL.to).collect()
}

/// All sizes, ascending, each once; a range grows by `factor`. Without any, those of `usual`.
///
/// # Errors
/// There are too many.
pub fn expand(given: &[Sizes], factor: u64, usual: Sizes) -> Result<Vec<u64>, String> {
    let given = match given {
        [] => &[usual],
        given => given,
    };
    let mut all = Vec::new();
    for range in given {
        let sizes = std::iter::successors(Some(range.from), |size| size.checked_mul(factor));
        all.extend(sizes.take_while(|size| *size <= range.to).take(MOST + 1));
        if all.len() > MOST {
            return Err(format!(
                "more than {MOST} sizes; expected fewer (a larger factor)"
            ));
        }
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// A collective by its name, or `all` that NCCL tunes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collectives(pub Vec<Collective>);

impl Collectives {
    /// Those of several lists, each once; of none all that NCCL tunes.
    pub fn each_once(given: &[Self]) -> Vec<Collective> {
        if given.is_empty() {
            return Self::tuned().0;
        }
        let mut all: Vec<Collective> = Vec::new();
        for collective in given.iter().flat_map(|given| &given.0) {
            if !all.contains(collective) {
                all.push(*collective);
            }
        }
        all
    }

    fn tuned() -> Self {
        Self(Collective::TUNED.into_iter().rev().collect())
    }
}

impl From<Collective> for Collectives {
    fn from(collective: Collective) -> Self {
        Self(vec![collective])
    }
}

impl FromStr for Collectives {
    type Err = String;

    /// Reads `all-reduce`, `AllReduce` or `all`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("all") {
            return Ok(Self::tuned());
        }
        let one = collective(text).map_err(|problem| problem + ", or all")?;
        Ok(one.into())
    }
}

impl<'de> Deserialize<'de> for Collectives {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_grow_by_the_factor() {
        let expand = |texts: &[&str], factor| {
            let sizes: Vec<Sizes> = texts.iter().map(|text| text.parse().unwrap()).collect();
            super::expand(&sizes, factor, Sizes::range(1, 1))
        };
        assert_eq!(
            expand(&["1K..5K", "2K", "7"], 2),
            Ok(vec![7, 1024, 2048, 4096])
        );
        assert_eq!(expand(&["1K..1M"], 32), Ok(vec![1024, 32768, 1 << 20]));
        assert_eq!(expand(&[], 2), Ok(vec![1]));
        assert!("2K..1K".parse::<Sizes>().is_err());
    }

    #[test]
    fn sizes_in_json() {
        let read = |text: &str| serde_json::from_str::<Vec<Sizes>>(text);
        let [one, range] = [Sizes::range(1024, 1024), Sizes::range(1, 2048)];
        assert_eq!(read(r#"[1024, "1K", "1..2K"]"#).unwrap(), [one, one, range]);
        for text in ["[0]", "[-1]", r#"["2K..1K"]"#, "[1.5]"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn collectives_in_either_spelling() {
        let collectives = |text: &str| text.parse::<Collectives>();
        for text in ["all-reduce", "AllReduce", "all_reduce", "ALLREDUCE"] {
            assert_eq!(collectives(text), Ok(Collective::AllReduce.into()));
        }
        assert_eq!(collectives("all").map(|all| all.0.len()), Ok(5));
        assert!(
            collectives("all-reduse").is_err_and(|error| error.contains("did you mean all-reduce"))
        );
    }
}
