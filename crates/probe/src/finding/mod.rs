//! Findings: missing and suspicious values, each with a stable id.

mod effect;
mod rule;

use serde::Serialize;

pub use effect::{AttributeChange, Effect, Selector};
pub use rule::Rule;

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule that was broken.
    #[serde(rename = "id", serialize_with = "rule::serialize_id")]
    pub rule: Rule,
    /// The affected devices.
    pub device: String,
    /// The value found.
    pub seen: String,
    /// The expected value.
    pub expected: String,
    /// Advice to the user.
    pub advice: String,
    /// Topologies before and after a repair; empty if unknown.
    #[serde(skip)]
    pub effect: Effect,
}

impl Finding {
    pub(crate) fn new(
        rule: Rule,
        device: impl Into<String>,
        seen: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self {
            rule,
            device: device.into(),
            seen: seen.into(),
            expected: expected.into(),
            advice: rule.advice().to_owned(),
            effect: Effect::default(),
        }
    }

    pub(crate) fn with_effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }
}
