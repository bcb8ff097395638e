//! The error of a workload that cannot be read.

/// A workload that cannot be read, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {why}", at(*.line))]
pub struct WorkloadError {
    /// The file.
    pub file: String,
    /// The line, from 1; 0: none.
    pub line: u64,
    /// What is wrong, and what was expected.
    pub why: String,
}

impl WorkloadError {
    /// An error of a line.
    pub(crate) fn new(file: &str, line: u64, why: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line,
            why: why.into(),
        }
    }
}

fn at(line: u64) -> String {
    match line {
        0 => String::new(),
        line => format!(":{line}"),
    }
}
