//! Whole numbers of the JSON forms, which are numbers or texts.

use serde::de::Deserializer;
use serde::{Deserialize, de};

/// A number, which protobuf's JSON writes as text if it has 64 bits.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Unsigned(u64),
    Signed(i64),
    Text(String),
}

impl Number {
    fn value<T: TryFrom<u64> + TryFrom<i64> + std::str::FromStr, E: de::Error>(
        self,
    ) -> Result<T, E> {
        let value = match &self {
            Self::Unsigned(value) => T::try_from(*value).ok(),
            Self::Signed(value) => T::try_from(*value).ok(),
            Self::Text(text) => text.trim().parse().ok(),
        };
        value.ok_or_else(|| E::custom("a number is out of range; expected a whole number"))
    }
}

pub(super) fn number<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Number::deserialize(from)?.value()
}

pub(super) fn numbers<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
    let all = Vec::<Number>::deserialize(from)?;
    all.into_iter().map(Number::value).collect()
}

pub(super) fn signed<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    let given = Option::<Number>::deserialize(from)?;
    given.map(Number::value).transpose()
}

pub(super) fn unsigned<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let given = Option::<Number>::deserialize(from)?;
    given.map(Number::value).transpose()
}
