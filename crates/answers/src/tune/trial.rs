//! The outcome of each trial.

use program::Collective;
use serde::Serialize;

use super::priced::{Compared, WORTH_IT};
use crate::JsonSchema;

/// Something that was tried.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Trial {
    /// It: `NAME=VALUE`, `rings`, or `choices` of algorithm and protocol.
    pub what: String,
    /// What came of it.
    pub verdict: Verdict,
    /// The message that gains most.
    pub most: Option<Extreme>,
    /// The message that loses most.
    pub least: Option<Extreme>,
    /// From this size on, bytes, some messages are faster and none slower.
    pub helps_from: Option<u64>,
    /// Why it was refused or not tried.
    pub why: Option<String>,
}

/// What came of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Some messages are faster, none slower.
    Helps,
    /// Nothing changes.
    NoEffect,
    /// Some messages are slower.
    Slower,
    /// NCCL refuses the job, or a search does.
    Refused,
    /// It was not tried.
    NotTried,
}

/// The message at which times differ most.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Extreme {
    /// How many times as fast.
    pub gain: f64,
    /// The collective.
    pub collective: Collective,
    /// Size of the whole message, bytes.
    pub bytes: u64,
}

impl Trial {
    /// A trial without effect.
    pub(super) fn no_effect(what: &str) -> Self {
        Self {
            what: what.to_owned(),
            verdict: Verdict::NoEffect,
            most: None,
            least: None,
            helps_from: None,
            why: None,
        }
    }

    /// A trial that came to nothing.
    pub(super) fn without(what: &str, verdict: Verdict, why: &dyn ToString) -> Self {
        Self {
            verdict,
            why: Some(why.to_string()),
            ..Self::no_effect(what)
        }
    }

    pub(super) fn of(what: &str, compared: &Compared) -> Self {
        let extreme = |(gain, collective, bytes)| Extreme {
            gain,
            collective,
            bytes,
        };
        let most = (compared.most.0 >= WORTH_IT).then(|| extreme(compared.most));
        let is_slower = !compared.loses_nothing();
        Self {
            verdict: match most {
                _ if is_slower => Verdict::Slower,
                Some(_) => Verdict::Helps,
                None => Verdict::NoEffect,
            },
            most,
            least: is_slower.then(|| extreme(compared.least)),
            helps_from: is_slower.then(|| compared.helps_from()).flatten(),
            ..Self::no_effect(what)
        }
    }
}
