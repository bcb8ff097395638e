//! SHA-256 over what a plan was made for, and over the plan itself.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::plan::{RequestSummary, Setting};

/// A SHA-256, shown and written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The SHA-256 of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// The text is no digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a SHA-256; expected 64 lower-case hexadecimal digits")]
pub struct NotADigest;

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        // One spelling only, so that equal digests are equal texts.
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Ok(byte - b'0'),
            b'a'..=b'f' => Ok(byte - b'a' + 10),
            _ => Err(NotADigest),
        };
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let mut bytes = [0; 32];
        if pairs.len() != bytes.len() || !rest.is_empty() {
            return Err(NotADigest);
        }
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Digest {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Sha256".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A SHA-256.",
            "type": "string",
            "pattern": "^[0-9a-f]{64}$",
        })
    }
}

/// Hashes what a plan depends on: profile, machines, settings, job. Equal parts in equal order give the same digest;
/// each part is hashed with its name and length, so no two different inputs run together to the same bytes.
#[derive(Debug, Clone)]
pub struct Fingerprint(Sha256);

impl Fingerprint {
    /// Begins with the profile, such as `nccl-2.30`.
    pub fn new(profile: &str) -> Self {
        Self(Sha256::new())
            .part("topo-fingerprint", b"1")
            .part("profile", profile.as_bytes())
    }

    /// Adds anything, by name.
    #[must_use]
    pub fn part(mut self, name: &str, bytes: &[u8]) -> Self {
        for piece in [name.as_bytes(), bytes] {
            self.0.update((piece.len() as u64).to_le_bytes());
            self.0.update(piece);
        }
        self
    }

    /// Adds `count` equal machines by the canonical bytes of their topology.
    #[must_use]
    pub fn topology(self, canonical: &[u8], count: u32) -> Self {
        self.part("topology", canonical)
            .part("count", &count.to_le_bytes())
    }

    /// Adds the settings in force, in the order given.
    #[must_use]
    pub fn settings(self, settings: &[Setting]) -> Self {
        settings.iter().fold(
            self.part("settings", &(settings.len() as u64).to_le_bytes()),
            |fingerprint, setting| {
                fingerprint
                    .part("name", setting.name.as_bytes())
                    .part("value", setting.value.as_bytes())
            },
        )
    }

    /// Adds the job.
    #[must_use]
    pub fn request(self, request: &RequestSummary) -> Self {
        let RequestSummary {
            hosts,
            nvlink_domain,
            collnet,
        } = *request;
        self.part("hosts", &hosts.to_le_bytes())
            .part("nvlink-domain", &[u8::from(nvlink_domain)])
            .part("collnet", &[u8::from(collnet)])
    }

    /// The digest of all that was added.
    pub fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}
