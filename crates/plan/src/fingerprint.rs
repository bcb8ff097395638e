//! The fingerprint of a plan's input.

use sha2::{Digest as _, Sha256};

use crate::digest::Digest;
use crate::request::{RequestSummary, Setting};

/// Hashes the input of a plan: profile, machines, settings, job.
///
/// Equal parts in equal order give equal digests. Each part is hashed with its name and length, so
/// that different inputs never give the same bytes.
#[derive(Debug, Clone)]
pub struct Fingerprint(Sha256);

impl Fingerprint {
    /// Begins with the profile, such as `nccl-2.30`.
    pub fn new(profile: &str) -> Self {
        Self(Sha256::new())
            .part("topo-fingerprint", b"1")
            .part("profile", profile.as_bytes())
    }

    /// Adds a named part.
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
        Digest::finish(self.0)
    }
}
