//! The output of a command, and how its files are written.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

/// The output of a command at its end.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// For standard output.
    pub text: String,
    /// Whether the text is a file for other programs, which gets every character as it is.
    pub is_file: bool,
    /// For standard error, each shown as `warning: …`.
    pub warnings: Vec<String>,
    /// For standard error, printed unchanged.
    pub notes: String,
    /// The exit status is 1: plans differ, there are findings, or failures were left out.
    pub differs: bool,
    /// Why what was measured can be judged neither good nor bad: the exit status is 3.
    pub unknown: Option<String>,
}

impl Output {
    /// Writes the text to `file`, or to standard output if there is none.
    pub(crate) fn write(&mut self, text: String, file: Option<&Path>) -> Result<()> {
        match file {
            Some(file) => write(file, &text)?,
            None => {
                self.text = text;
                self.is_file = true;
            }
        }
        Ok(())
    }
}

/// Writes a file that the command line names, whole or not at all.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    if path == Path::new("-") {
        bail!(
            "cannot write `-`: expected a file's name; --format json prints a plan, other files are printed without -o"
        );
    }
    files::write(path, text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

/// The full path of what exists, without links. On Windows it is as people write it there, and
/// links stay.
pub(crate) fn full(path: &Path) -> std::io::Result<PathBuf> {
    let full = path.canonicalize()?;
    match cfg!(windows) {
        true => std::path::absolute(path),
        false => Ok(full),
    }
}

/// Refuses to write what an option names over one of the files that it is made of.
pub(crate) fn refuse_overwriting(option: &str, target: &Path, inputs: &[PathBuf]) -> Result<()> {
    let (Ok(target), Ok(shown)) = (target.canonicalize(), full(target)) else {
        return Ok(());
    };
    let is_target = |input: &&PathBuf| {
        let same = |file: &Path| file.canonicalize().is_ok_and(|file| file == target);
        same(input) || same(&input.join("topology.xml"))
    };
    match inputs.iter().find(is_target) {
        Some(input) => bail!(
            "{option} {}: this would overwrite the input {}; expected another file",
            shown.display(),
            input.display()
        ),
        None => Ok(()),
    }
}

/// The forms of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ShowFormat {
    /// Tables for people
    Text,
    /// JSON
    Json,
    /// A picture, for browsers and documents
    Svg,
    /// A page with the picture and the text, for browsers
    Html,
    /// A graph for Graphviz
    Dot,
}

/// The forms of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlanFormat {
    /// Tables for people
    Text,
    /// The plan as JSON, as -o writes it
    Json,
    /// The graphs as NCCL reads them through NCCL_GRAPH_FILE
    NcclGraph,
    /// One line
    Quiet,
    /// A picture of the machine, the load of its links and the channels, for browsers and documents
    Svg,
    /// A page with pictures of every channel and the text, for browsers
    Html,
    /// The machine as a graph for Graphviz
    Dot,
}
