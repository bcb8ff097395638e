//! What a command produces, and in which formats a plan can be printed.

use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

/// What a command says; printed when it is done.
#[derive(Debug, Default)]
pub struct Output {
    /// For standard output.
    pub text: String,
    /// For standard error, each shown as `warning: …`.
    pub warnings: Vec<String>,
    /// For standard error, as it is.
    pub notes: String,
    /// What was compared is not the same, something was found, or not everything was looked at; the process says so by its
    /// status.
    pub differs: bool,
}

/// Writes a file that the command line names, whole or not at all.
pub fn write(path: &Path, text: &str) -> Result<()> {
    if path == Path::new("-") {
        bail!(
            "cannot write `-`: expected a file's name; --format json prints a plan, other files are printed without -o"
        );
    }
    files::write(path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

/// The forms of what a rank does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RankFormat {
    /// Tables for people
    Text,
    /// Everything, as JSON
    Json,
}

/// The forms of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for people
    Text,
    /// The plan as JSON, as -o writes it
    Json,
    /// The graphs as NCCL reads them through NCCL_GRAPH_FILE
    NcclGraph,
    /// One line
    Quiet,
}
