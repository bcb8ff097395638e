//! The effects of a job's settings, as an answer.

use pages::Page;
use plan::Setting;
use serde::Serialize;

use super::Verdict;
use crate::JsonSchema;
use crate::report::Report;

/// A finding about a setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SettingFinding {
    /// The variables, most often one.
    pub names: Vec<String>,
    /// Its effect.
    pub verdict: Verdict,
    /// The same in a sentence.
    pub text: String,
}

/// The effects of a job's settings.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SettingsReport {
    /// Names of the machines.
    pub name: String,
    /// The version of NCCL.
    pub nccl: String,
    /// The settings that were given.
    pub given: Vec<Setting>,
    /// No finding is a fault.
    pub fine: bool,
    /// The findings, the worst first.
    pub findings: Vec<SettingFinding>,
    /// Plans that were made.
    #[serde(skip)]
    pub plans: usize,
}

impl Report for SettingsReport {
    const FORMAT: &'static str = "topo-settings";
    const VERSION: u32 = 1;

    fn as_page(&self) -> Option<Page> {
        Some(self.page())
    }
}
