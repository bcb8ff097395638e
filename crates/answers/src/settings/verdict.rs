//! The verdict on a setting.

use serde::Serialize;

use crate::JsonSchema;

/// The effect of a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// NCCL does not start with it, refuses collectives, or dies of one.
    Refused,
    /// Data can be wrong with it.
    Dangerous,
    /// NCCL has no such variable.
    Unknown,
    /// NCCL reads the value as something else.
    Misread,
    /// Another setting hides it.
    Hidden,
    /// Another version refuses it, or takes what this one refuses.
    #[serde(rename = "versions")]
    OtherVersions,
    /// It changes nothing in this job.
    #[serde(rename = "no effect")]
    NoEffect,
    /// It changes decisions that depend on more than the topology.
    #[serde(rename = "assumed")]
    NotModelled,
    /// It changes the plan.
    Decides,
}

impl Verdict {
    /// Its name on pages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Dangerous => "dangerous",
            Self::Unknown => "unknown",
            Self::Misread => "misread",
            Self::Hidden => "hidden",
            Self::OtherVersions => "versions",
            Self::NoEffect => "no effect",
            Self::NotModelled => "assumed",
            Self::Decides => "decides",
        }
    }

    /// Whether somebody should look at it.
    pub const fn is_fault(self) -> bool {
        matches!(
            self,
            Self::Refused | Self::Dangerous | Self::Unknown | Self::Misread | Self::Hidden
        )
    }
}
