//! The outcome of each trial.

use program::Collective;

use super::priced::{Compared, WORTH_IT};

/// Something that was tried.
#[derive(Debug)]
pub struct Trial {
    /// It, as `NAME=VALUE`, `rings` or `choices`.
    pub what: String,
    /// What came of it.
    pub verdict: Verdict,
}

/// What came of a trial.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Some messages are faster, none slower: the most, as how many times as fast.
    Helps(Extreme),
    /// Nothing changes.
    NoEffect,
    /// Some messages are slower.
    Slower {
        /// The message that loses most.
        least: Extreme,
        /// The message that gains most.
        most: Option<Extreme>,
        /// From this size on, bytes, some messages are faster and none slower.
        helps_from: Option<u64>,
    },
    /// NCCL refuses the job, or a search does; why.
    Refused(String),
    /// It was not tried; why.
    NotTried(String),
}

/// The message at which times differ most.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Extreme {
    /// How many times as fast.
    pub gain: f64,
    /// The collective.
    pub collective: Collective,
    /// The size of the whole message, bytes.
    pub bytes: u64,
}

impl Verdict {
    pub(super) fn of(compared: &Compared) -> Self {
        let extreme = |(gain, collective, bytes)| Extreme {
            gain,
            collective,
            bytes,
        };
        let helps = (compared.most.0 >= WORTH_IT).then(|| extreme(compared.most));
        match helps {
            most if !compared.loses_nothing() => Self::Slower {
                least: extreme(compared.least),
                most,
                helps_from: compared.helps_from(),
            },
            Some(helps) => Self::Helps(helps),
            None => Self::NoEffect,
        }
    }
}
