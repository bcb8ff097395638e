//! Findings: missing and suspicious values, each with a stable id.

mod effect;
mod rule;

use serde::Serialize;

pub use effect::{AttributeChange, Effect, Selector};
pub use rule::{Remedy, Rule, Teller};

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule that was broken.
    #[serde(rename = "id", serialize_with = "rule::serialize_id")]
    pub rule: Rule,
    /// The affected devices.
    pub devices: Vec<String>,
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
    /// A finding about a device, with the rule's advice.
    pub fn new(
        rule: Rule,
        device: impl Into<String>,
        seen: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self::of_all(rule, &[device.into()], seen, expected)
    }

    /// A finding about several devices.
    pub fn of_all(
        rule: Rule,
        devices: &[impl AsRef<str>],
        seen: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self {
            rule,
            devices: devices.iter().map(|it| it.as_ref().to_owned()).collect(),
            seen: seen.into(),
            expected: expected.into(),
            advice: rule.advice().to_owned(),
            effect: Effect::default(),
        }
    }

    /// The finding with what a repair changes.
    pub fn with_effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// The affected devices in short: the first, and the number of others.
    pub fn device(&self) -> String {
        first_of(&self.devices)
    }

    /// Joins findings that differ only in their device, unless their repairs cannot be joined.
    pub fn joined(all: Vec<Self>) -> Vec<Self> {
        let mut joined: Vec<Self> = Vec::new();
        for finding in all {
            let same = |known: &&mut Self| {
                (known.rule, &known.seen, &known.expected)
                    == (finding.rule, &finding.seen, &finding.expected)
                    && known.effect.is_only_attributes()
                    && finding.effect.is_only_attributes()
            };
            match joined.iter_mut().find(same) {
                Some(known) => {
                    known.devices.extend(finding.devices);
                    known.effect.now.extend(finding.effect.now);
                    known.effect.mended.extend(finding.effect.mended);
                }
                None => joined.push(finding),
            }
        }
        joined
    }
}

/// The first name and the number of others.
pub(crate) fn first_of<S: AsRef<str>>(names: &[S]) -> String {
    let first = names.first().map_or("", AsRef::as_ref);
    match names.len() {
        0 | 1 => first.to_owned(),
        count => format!("{first} and {} more", count - 1),
    }
}
