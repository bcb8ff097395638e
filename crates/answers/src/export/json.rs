//! Exported files, as JSON.

use crate::JsonSchema;
use serde::Serialize;

use super::Export;
use crate::measured::MeasuredLinks;
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
    /// Parts that cannot be exported.
    pub left_out: Vec<LeftOut>,
    /// The measured links that the choices count with; absent if they are NCCL's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredLinks>,
}

/// A file.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct WrittenFile {
    /// Its name in the folder.
    pub file: String,
    /// Its purpose.
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

/// The purpose of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Graphs for one set of GPUs (`NCCL_GRAPH_FILE`).
    Graph,
    /// Choices for the plug-in (`TOPO_TUNER_FILE`).
    Choices,
    /// The tuner plug-in (`NCCL_TUNER_PLUGIN`).
    Plugin,
    /// Choices for NVIDIA's example of a tuner plug-in (`NCCL_TUNER_CONFIG_FILE`).
    Csv,
    /// Sizes at which all-reduces of vLLM and SGLang hand over.
    Crossovers,
    /// NCCL's variables (`NCCL_CONF_FILE`).
    Configuration,
    /// How to use the files.
    Readme,
}

impl Kind {
    /// Its purpose, in words.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Graph => "graphs of one set of GPUs, for NCCL_GRAPH_FILE",
            Self::Choices => "choices by collective and size, for the plug-in",
            Self::Plugin => "the tuner plug-in, for NCCL_TUNER_PLUGIN",
            Self::Csv => "the choices for NVIDIA's example plug-in",
            Self::Crossovers => "sizes for the all-reduces of vLLM and SGLang",
            Self::Configuration => "NCCL's variables, for NCCL_CONF_FILE",
            Self::Readme => "how to use each file",
        }
    }
}

/// A part that cannot be exported.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LeftOut {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
}

impl ExportReport {
    /// An export that was written. `name` and `profile` are those of the job and its plan.
    pub fn of(export: Export, name: &str, profile: &str, folder: String) -> Self {
        let files = export.files.into_iter().map(|file| WrittenFile {
            file: file.name,
            kind: file.kind,
            bytes: file.content.len() as u64,
            gpus: file.gpus,
            readers: file.readers,
        });
        Self {
            name: name.to_owned(),
            profile: profile.to_owned(),
            folder,
            files: files.collect(),
            left_out: export.left_out,
            measured: None,
        }
    }
}

impl Report for ExportReport {
    const FORMAT: &'static str = "topo-export";
    const VERSION: u32 = 1;
}
