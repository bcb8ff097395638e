//! Enumerations whose values have names.

/// A text that names none of the expected values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{found}` is no {kind}; expected one of {expected}")]
pub struct UnknownName {
    /// The expected kind.
    pub kind: &'static str,
    /// The text.
    pub found: String,
    /// The names, separated by spaces.
    pub expected: String,
}

/// JSON of an enumeration with names: for `#[serde(with = "program::by_name")]`.
pub mod by_name {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    /// Writes the name.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<T: Display, S: Serializer>(it: &T, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(it)
    }

    /// Reads a name.
    ///
    /// # Errors
    /// The text names none of the values.
    pub fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// Gives an enumeration `ALL`, `name`, [`Display`](std::fmt::Display) and
/// [`FromStr`](std::str::FromStr).
///
/// The closure returns `true` if the text names the value.
#[macro_export]
macro_rules! named {
    ($type:ident, $kind:literal, $matches:expr, {$($variant:ident = $name:literal),* $(,)?}) => {
        impl $type {
            /// All values, in the order of their numbers.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// The name in files and on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),*
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::UnknownName;

            fn from_str(text: &str) -> Result<Self, $crate::UnknownName> {
                let matches: fn(Self, &str) -> bool = $matches;
                let known = Self::ALL.into_iter().find(|known| matches(*known, text));
                known.ok_or_else(|| $crate::UnknownName {
                    kind: $kind,
                    found: text.to_owned(),
                    expected: Self::ALL.map(Self::name).join(" "),
                })
            }
        }
    };
}
