//! What a command produces, and in which formats a plan can be printed.
//!
//! This is the seam for the plan's other forms. To add one: take its `#[value(skip)]` away below, and write it in
//! [`crate::plan::run`], where the formats are told apart. The same two places serve `-o plan.json` and NCCL_GRAPH_FILE.

use clap::ValueEnum;
use planner::Settings;

/// What a command says; printed when it is done.
#[derive(Debug, Default)]
pub struct Output {
    /// For standard output.
    pub text: String,
    /// For standard error, each shown as `warning: …`.
    pub warnings: Vec<String>,
}

/// The forms of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for people
    Text,
    /// One line
    Quiet,
    /// The plan as JSON: not there yet.
    #[value(skip)]
    #[allow(dead_code)]
    Json,
    /// NCCL's graph file: not there yet.
    #[value(skip)]
    #[allow(dead_code)]
    NcclGraph,
}

/// Says that graphs given by NCCL_GRAPH_FILE are not used yet.
pub fn graph_file_remark(settings: &Settings) -> Option<String> {
    let file = settings.graph_file.as_ref()?;
    Some(format!(
        "NCCL_GRAPH_FILE={file} is not read yet: the channels shown are those of a search"
    ))
}
