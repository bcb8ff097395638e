//! Findings: missing and suspicious values, each with a stable id.

mod devices;
mod document;
mod driver;
mod effect;
mod isolation;
mod links;
mod network;
mod nvlink;
mod rule;
mod values;

use serde::Serialize;
use topology::xml::Document;

pub use effect::{AttributeChange, Effect, Selector};
pub use rule::Rule;

use crate::{Probe, base};

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
    fn new(
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

    fn with_effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }
}

/// Checks a probed machine and its document. Findings are sorted by id. `unread` is why the file
/// that NCCL starts from could not be read.
pub(crate) fn of_probe(probe: &Probe, unread: Option<String>) -> Vec<Finding> {
    let mut findings = driver::check(probe);
    findings.extend(
        unread
            .map(|why| Finding::new(Rule::Garbage, base::NAME, why, "a topology that NCCL reads")),
    );
    findings.extend(links::check(probe));
    findings.extend(values::check(probe));
    findings.extend(nvlink::check(probe));
    findings.extend(isolation::check(probe));
    findings.extend(network::check(probe));
    findings.extend(devices::check(probe));
    // Reported already for the machine. NVLinks may lead to GPUs that are not in use.
    let told = [Rule::MissingAttribute, Rule::Incomplete, Rule::Dangling];
    let document = document::check(&probe.document).into_iter();
    findings.extend(document.filter(|finding| !told.contains(&finding.rule)));
    in_order(findings)
}

/// Checks a topology file. Findings are sorted by id.
pub fn of_document(document: &Document) -> Vec<Finding> {
    in_order(document::check(document))
}

fn in_order(mut findings: Vec<Finding>) -> Vec<Finding> {
    findings.sort_by_key(|finding| finding.rule);
    findings
}
