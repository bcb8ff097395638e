//! Exchanges of tokens with experts on other ranks in two stages, as DeepEP and NCCL EP make them.

use program::Collective;
use serde::Serialize;

use crate::JsonSchema;

/// Most experts, and most experts of a token.
pub const MOST_EXPERTS: u32 = 1 << 24;

/// An exchange in two stages: a token goes over the network once to each NVLink domain that has an
/// expert of it, and on over NVLink; results come back the same way, added up in each domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
pub struct Tokens {
    /// `dispatch` or `combine`.
    #[serde(rename = "exchange")]
    #[schemars(with = "String")]
    pub direction: Direction,
    /// Experts of all ranks of a communicator together.
    pub experts: u32,
    /// Experts of a token.
    pub top_k: u32,
}

/// The direction of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// Tokens go to their experts.
    Dispatch,
    /// Results come back.
    Combine,
}

impl Direction {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Dispatch, Self::Combine];

    /// The name in lists of calls, in place of that of a collective.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dispatch => "dispatch",
            Self::Combine => "combine",
        }
    }

    /// The direction of this name.
    pub fn named(text: &str) -> Option<Self> {
        let text = text.trim();
        Self::ALL
            .into_iter()
            .find(|it| it.name().eq_ignore_ascii_case(text))
    }
}

/// The name of a call: that of its collective, or of the exchange.
pub const fn call_name(collective: Collective, tokens: Option<Tokens>) -> &'static str {
    match tokens {
        Some(tokens) => tokens.direction.name(),
        None => collective.command_name(),
    }
}

impl Tokens {
    /// Checks the numbers of an exchange of a list; each is missing or as it is written.
    ///
    /// # Errors
    /// One is missing or out of range; a sentence.
    pub(crate) fn listed(
        direction: Direction,
        experts: Option<u32>,
        top_k: Option<u32>,
    ) -> Result<Self, String> {
        let name = direction.name();
        let (Some(experts), Some(top_k)) = (experts, top_k) else {
            return Err(format!(
                "{name} has no experts or top_k; expected both: experts of all ranks together, and \
                 experts of a token"
            ));
        };
        match (1..=MOST_EXPERTS).contains(&experts) && (1..=experts).contains(&top_k) {
            true => Ok(Self {
                direction,
                experts,
                top_k,
            }),
            false => Err(format!(
                "{name} with {experts} experts, {top_k} of a token; expected 1 to {MOST_EXPERTS}, and no \
                 more of a token"
            )),
        }
    }
}
