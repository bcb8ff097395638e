//! What was exported, as JSON.

use schemars::JsonSchema;
use serde::Serialize;

use super::folder::Kind;
use crate::report::Report;

/// The files of an export.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExportReport {
    /// The job's name.
    pub name: String,
    /// The profile of the plan's decisions, such as `nccl-2.30`.
    pub profile: String,
    /// The folder.
    pub folder: String,
    /// The files, in the order in which they were written.
    pub files: Vec<WrittenFile>,
    /// What cannot be exported.
    pub left_out: Vec<LeftOut>,
}

/// A file.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WrittenFile {
    /// Its name in the folder.
    pub file: String,
    /// What it is for.
    pub kind: Kind,
    /// Its length, bytes.
    pub bytes: u64,
    /// The GPUs of each host for which it is, such as `0-3,6`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<String>,
    /// Only ranks on these GPUs read it: the network joins them with the others of the set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readers: Option<String>,
}

/// What cannot be exported.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LeftOut {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
}

impl Report for ExportReport {
    const FORMAT: &'static str = "topo-export";
    const VERSION: u32 = 1;
}
