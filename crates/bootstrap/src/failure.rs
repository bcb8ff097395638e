//! The failure of a job, which every rank hears of.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The failure of a job: the rank at fault, and what happened to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The rank at fault.
    pub rank: u32,
    /// What happened, with the host or address.
    pub what: String,
}

impl Failure {
    /// A failure of this rank.
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
