//! What made a job fail, as every rank hears of it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What made a job fail: which rank, and what happened to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The culprit.
    pub rank: u32,
    /// What happened, with the host or address where it did.
    pub what: String,
}

impl Failure {
    /// A failure of a rank.
    pub fn new(rank: u32, what: impl Into<String>) -> Self {
        Self {
            rank,
            what: what.into(),
        }
    }
}

impl std::error::Error for Failure {}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}: {}", self.rank, self.what)
    }
}
