//! Values of other programs that are cut while they are read, so that no file grows in memory.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// At most `N` values; further ones are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Few<T, const N: usize>(pub Vec<T>);

impl<T, const N: usize> Default for Few<T, N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for Few<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Values<T, const N: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for Values<T, N> {
            type Value = Few<T, N>;

            fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
                text.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Self::Value, A::Error> {
                let mut values = Vec::new();
                while values.len() < N {
                    let Some(value) = all.next_element()? else {
                        return Ok(Few(values));
                    };
                    values.push(value);
                }
                while all.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Few(values))
            }
        }
        deserializer.deserialize_seq(Values(PhantomData))
    }
}

/// The last values: at least `N` of more, at most twice as many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Last<T, const N: usize>(pub Vec<T>);

impl<T, const N: usize> Default for Last<T, N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for Last<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Values<T, const N: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for Values<T, N> {
            type Value = Last<T, N>;

            fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
                text.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Self::Value, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = all.next_element()? {
                    if values.len() == 2 * N {
                        values.drain(..N);
                    }
                    values.push(value);
                }
                Ok(Last(values))
            }
        }
        deserializer.deserialize_seq(Values(PhantomData))
    }
}

/// At most `N` pairs of names and values; further ones are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FewNamed<T, const N: usize>(pub Vec<(Short, T)>);

impl<T, const N: usize> Default for FewNamed<T, N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for FewNamed<T, N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs<T, const N: usize>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const N: usize> Visitor<'de> for Pairs<T, N> {
            type Value = FewNamed<T, N>;

            fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
                text.write_str("names with values")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while pairs.len() < N {
                    let Some(pair) = all.next_entry()? else {
                        return Ok(FewNamed(pairs));
                    };
                    pairs.push(pair);
                }
                while all.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(FewNamed(pairs))
            }
        }
        deserializer.deserialize_map(Pairs(PhantomData))
    }
}

/// Most bytes of a short text.
pub(crate) const MOST_TEXT: usize = 256;

/// A text, cut after 256 bytes. A number becomes its digits.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Short(pub String);

impl Short {
    pub(crate) fn of(text: &str) -> Self {
        let mut end = text.len().min(MOST_TEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        Self(text[..end].to_owned())
    }
}

impl<'de> Deserialize<'de> for Short {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Short;

            fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
                text.write_str("a text")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Short, E> {
                Ok(Short::of(text))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Short, E> {
                Ok(Short(number.to_string()))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Short, E> {
                Ok(Short(number.to_string()))
            }
        }
        deserializer.deserialize_any(Text)
    }
}

/// A number, also as text and `null` (0).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(pub i64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl<'de> Visitor<'de> for Number {
            type Value = Count;

            fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
                text.write_str("a number")
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Count, E> {
                Ok(Count(number))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Count, E> {
                Ok(Count(i64::try_from(number).unwrap_or(i64::MAX)))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Count, E> {
                Ok(Count(number as i64))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Count, E> {
                Ok(Count(text.trim().parse().unwrap_or(0)))
            }

            fn visit_unit<E: Error>(self) -> Result<Count, E> {
                Ok(Count(0))
            }

            fn visit_none<E: Error>(self) -> Result<Count, E> {
                Ok(Count(0))
            }

            fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<Count, D::Error> {
                inner.deserialize_any(self)
            }
        }
        deserializer.deserialize_any(Number)
    }
}
