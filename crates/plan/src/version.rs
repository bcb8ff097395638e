//! The versions of NCCL whose decisions are known.

use std::fmt;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A version of NCCL: the newest known patch release of each minor version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NcclVersion {
    /// 2.27.7
    V2_27,
    /// 2.28.9
    V2_28,
    /// 2.29.7
    V2_29,
    /// 2.30.7
    V2_30,
    /// 2.31.2
    V2_31,
    /// 2.32.3
    V2_32,
    /// 2.32.6, from its public source; no binary has judged it. It is chosen by name only.
    V2_32_6,
}

impl NcclVersion {
    /// Those that a binary has judged, oldest first.
    pub const ALL: [Self; 6] = [
        Self::V2_27,
        Self::V2_28,
        Self::V2_29,
        Self::V2_30,
        Self::V2_31,
        Self::V2_32,
    ];

    /// The newest one of [`Self::ALL`], which is the default.
    pub const NEWEST: Self = Self::V2_32;

    /// Whether a binary has judged it.
    pub fn is_judged(&self) -> bool {
        Self::ALL.contains(self)
    }

    /// All that have a name.
    fn named() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().chain([Self::V2_32_6])
    }

    /// The full number, such as `2.30.7`, with a mark where no binary has judged it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V2_27 => "2.27.7",
            Self::V2_28 => "2.28.9",
            Self::V2_29 => "2.29.7",
            Self::V2_30 => "2.30.7",
            Self::V2_31 => "2.31.2",
            Self::V2_32 => "2.32.3",
            Self::V2_32_6 => "2.32.6 (from source, not judged by a binary)",
        }
    }

    /// The number without the patch release, such as `2.30`.
    pub fn minor(self) -> &'static str {
        let name = self.name();
        name.rsplit_once('.').map_or(name, |(minor, _)| minor)
    }

    /// The name of the profile of its decisions in plans, such as `nccl-2.30`.
    pub const fn profile(self) -> &'static str {
        match self {
            Self::V2_27 => "nccl-2.27",
            Self::V2_28 => "nccl-2.28",
            Self::V2_29 => "nccl-2.29",
            Self::V2_30 => "nccl-2.30",
            Self::V2_31 => "nccl-2.31",
            Self::V2_32 => "nccl-2.32",
            Self::V2_32_6 => "nccl-2.32.6-from-source",
        }
    }

    /// The version whose profile has this name; `None` for the profiles of others.
    pub fn of_profile(profile: &str) -> Option<Self> {
        Self::named().find(|version| version.profile() == profile)
    }
}

impl Serialize for NcclVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for NcclVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

impl Default for NcclVersion {
    fn default() -> Self {
        Self::NEWEST
    }
}

impl fmt::Display for NcclVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A version that is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("NCCL `{found}` is not known; expected one of {}", known())]
pub struct UnknownVersion {
    found: String,
}

fn known() -> String {
    NcclVersion::ALL
        .map(|version| format!("{} ({version})", version.minor()))
        .join(", ")
        + ", "
        + NcclVersion::V2_32_6.name()
}

impl FromStr for NcclVersion {
    type Err = UnknownVersion;

    /// Reads a number with or without the patch release: `2.30`, `2.30.7`.
    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        let is_number = |name: &str| name.split(' ').next() == Some(text);
        NcclVersion::named()
            .find(|it| it.name() == text || it.minor() == text || is_number(it.name()))
            .ok_or_else(|| UnknownVersion {
                found: text.to_owned(),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_with_and_without_the_patch_release() {
        for version in NcclVersion::ALL {
            assert_eq!(version.name().parse(), Ok(version));
            assert_eq!(version.minor().parse(), Ok(version));
            assert_eq!(NcclVersion::of_profile(version.profile()), Some(version));
        }
        assert_eq!(NcclVersion::ALL.last(), Some(&NcclVersion::NEWEST));
        let by_name = NcclVersion::V2_32_6;
        for text in ["2.32.6", by_name.name()] {
            assert_eq!(text.parse(), Ok(by_name));
        }
        assert_eq!(by_name.minor(), "2.32");
        assert_eq!(NcclVersion::of_profile(by_name.profile()), Some(by_name));
        let error = "2.30.4".parse::<NcclVersion>().map_err(|it| it.to_string());
        assert_eq!(
            error,
            Err(
                "NCCL `2.30.4` is not known; expected one of 2.27 (2.27.7), 2.28 (2.28.9), \
                 2.29 (2.29.7), 2.30 (2.30.7), 2.31 (2.31.2), 2.32 (2.32.3), \
                 2.32.6 (from source, not judged by a binary)"
                    .to_owned()
            )
        );
    }
}
