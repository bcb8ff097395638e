//! Effects of settings, as JSON.

use crate::JsonSchema;
use plan::Setting;
use serde::Serialize;

use super::SettingsAnswer;
use crate::report::Report;

/// The effects of a job's settings.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SettingsReport {
    /// Names of the machines.
    name: String,
    /// The version of NCCL.
    nccl: String,
    /// The settings that were given.
    given: Vec<Setting>,
    /// No finding is a fault.
    fine: bool,
    /// The findings, the worst first.
    findings: Vec<SettingFindingReport>,
}

/// A finding about a setting.
#[derive(Debug, Serialize, JsonSchema)]
struct SettingFindingReport {
    /// The variables, most often one.
    names: Vec<String>,
    /// `refused`, `dangerous`, `unknown`, `misread`, `hidden`, `versions` (others differ),
    /// `no effect`, `assumed` (depends on more than the topology) or `decides`.
    verdict: &'static str,
    /// The same in a sentence.
    text: String,
}

impl Report for SettingsReport {
    const FORMAT: &'static str = "topo-settings";
    const VERSION: u32 = 1;
}

impl SettingsReport {
    /// The answer.
    pub fn of(answer: &SettingsAnswer) -> Self {
        let findings = answer.findings.iter().map(|finding| SettingFindingReport {
            names: finding.names.clone(),
            verdict: finding.verdict.name(),
            text: finding.text.clone(),
        });
        let given = answer.given.iter().map(|(name, value)| Setting {
            name: name.clone(),
            value: value.clone(),
        });
        Self {
            name: answer.name.clone(),
            nccl: answer.version.name().to_owned(),
            given: given.collect(),
            fine: !answer.has_faults(),
            findings: findings.collect(),
        }
    }
}
