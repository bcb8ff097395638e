//! Values of questions, as people write them on the command line and as JSON.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use program::{Collective, Reduction};
use serde::de::{self, DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::JsonSchema;
use crate::names::collective;

/// A parser of a whole number within a range.
pub fn within<N: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<N, String> + Clone {
    move |text| {
        let number = text.parse::<u64>().ok().filter(|it| range.contains(it));
        number.and_then(|it| N::try_from(it).ok()).ok_or_else(|| {
            let (first, last) = (range.start(), range.end());
            match *last {
                u64::MAX => format!("expected a whole number, {first} or more"),
                _ => format!("expected a whole number from {first} to {last}"),
            }
        })
    }
}

/// Reads numbers and ranges (`0-3`, or backwards `3-0`) with commas or spaces between, in this
/// order.
///
/// # Errors
/// An item is none, there is no item, or there are more than `most` numbers; a sentence.
pub fn numbers(text: &str, most: usize) -> Result<Vec<u32>, String> {
    let mut list = Vec::new();
    for item in text.split(|separator: char| separator == ',' || separator.is_whitespace()) {
        if item.is_empty() {
            continue;
        }
        let (first, last) = item.split_once('-').unwrap_or((item, item));
        let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else {
            return Err(format!(
                "`{item}` is neither a number nor a range; expected something like 0-3,6"
            ));
        };
        let more = u64::from(first.abs_diff(last)) + 1;
        if list.len() as u64 + more > most as u64 {
            return Err(format!(
                "`{item}` makes the list longer than {most} numbers"
            ));
        }
        if first <= last {
            list.extend(first..=last);
        } else {
            list.extend((last..=first).rev());
        }
    }
    if list.is_empty() {
        return Err("the list is empty; expected something like 0-3,6".to_owned());
    }
    Ok(list)
}

/// Reads a list of which each range ends after it begins.
///
/// # Errors
/// As [`numbers`], or a range ends before it begins.
pub fn ascending(text: &str, most: usize) -> Result<Vec<u32>, String> {
    let is_between = |it: char| it == ',' || it.is_whitespace();
    let backwards = text.split(is_between).find(|item| {
        let ends = item.split_once('-');
        let ends = ends.map(|(first, last)| (first.trim().parse::<u32>(), last.trim().parse()));
        matches!(ends, Some((Ok(first), Ok(last))) if first > last)
    });
    if let Some(item) = backwards {
        return Err(format!(
            "`{item}`: the range ends before it begins; expected something like 0-3,6"
        ));
    }
    numbers(text, most)
}

/// Reads one type or operation; nccl-tests also takes `all`.
///
/// # Errors
/// There is none of this name.
pub fn one<T: FromStr<Err: Display>>(text: &str) -> Result<T, String> {
    match text {
        "all" => Err("a run has one; expected its name, and the command in a loop for all".into()),
        text => text.parse().map_err(|error: T::Err| error.to_string()),
    }
}

/// Reads an operation that NCCL has.
///
/// # Errors
/// It has none of this name.
pub fn reduction(text: &str) -> Result<Reduction, String> {
    let known = Reduction::OF_NCCL.into_iter();
    let mut known = known.filter(|it| it.name().eq_ignore_ascii_case(text));
    known.next().ok_or_else(|| {
        let names = Reduction::OF_NCCL.map(Reduction::name).join(" ");
        format!("expected one of {names}")
    })
}

/// A value of JSON by its name.
pub(crate) fn by_name<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(Error::custom)
}

/// As [`by_name`]; null is none.
pub(crate) fn some_by_name<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|it| it.parse().map_err(Error::custom)).transpose()
}

/// A list of values of JSON by their names.
pub(crate) fn list_by_name<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let read = texts.iter().map(|it| it.parse().map_err(Error::custom));
    read.collect()
}

/// A collective of JSON: `all-reduce` or `AllReduce`.
pub(crate) fn collective_by_name<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Collective, D::Error> {
    collective(&String::deserialize(deserializer)?).map_err(Error::custom)
}

/// As [`collective_by_name`]; null is none.
pub(crate) fn some_collective_by_name<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Collective>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|it| collective(&it).map_err(Error::custom))
        .transpose()
}

/// An operation of JSON that NCCL has.
pub(crate) fn reduction_by_name<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Reduction, D::Error> {
    let text = String::deserialize(deserializer)?;
    reduction(&text).map_err(|why| Error::custom(format!("NCCL has no operation {text}; {why}")))
}

/// A question with flattened fields.
pub trait Flattened {
    /// The names of all its fields in JSON, in lists. Serde does not know those of flattened
    /// structs, so it cannot refuse others.
    const FIELDS: &[&[&str]];
}

/// A question with flattened fields, of which JSON may have no others.
#[derive(Debug, Clone, JsonSchema)]
pub struct Exactly<T>(pub T);

impl<'de, T: Flattened + DeserializeOwned> Deserialize<'de> for Exactly<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let fields = Map::<String, Value>::deserialize(deserializer)?;
        let known = T::FIELDS.concat();
        if let Some(name) = fields.keys().find(|it| !known.contains(&it.as_str())) {
            let expected = known.join(", ");
            let why = format!("unknown field `{name}`, expected one of {expected}");
            return Err(de::Error::custom(why));
        }
        T::deserialize(Value::Object(fields))
            .map(Self)
            .map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        for (text, expected) in [
            ("0-3,6", vec![0, 1, 2, 3, 6]),
            ("3-0", vec![3, 2, 1, 0]),
            (" 7\n5, 5 ", vec![7, 5, 5]),
        ] {
            assert_eq!(numbers(text, 8).ok(), Some(expected), "{text}");
        }
        for text in [
            "",
            ",",
            "a",
            "1-",
            "-1",
            "1-2-3",
            "0x1",
            "0-8",
            "4294967296",
        ] {
            assert!(numbers(text, 8).is_err(), "{text}");
        }
        assert!(numbers("0-4294967295", 8).is_err());
        for text in ["3-0", "0,3-1", "3-0 5"] {
            assert!(ascending(text, 8).is_err(), "{text}");
        }
    }
}
