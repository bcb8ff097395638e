//! The runs of `runs.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The file.
#[derive(Deserialize)]
struct File {
    prelude: String,
    #[serde(flatten)]
    runs: BTreeMap<String, Run>,
}

/// How a host is measured.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    #[serde(skip)]
    pub(crate) name: String,
    pub(crate) program: Option<String>,
    #[serde(default)]
    pub(crate) needs: Option<String>,
    #[serde(default)]
    pub(crate) tools: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) variables: BTreeMap<String, String>,
    /// The word of the verdict.
    pub(crate) verdict: String,
    /// Options of `topo expect`.
    #[serde(default)]
    pub(crate) options: Vec<String>,
    #[serde(default)]
    pub(crate) says: Vec<String>,
}

/// All runs, with whole programs.
pub(crate) fn runs() -> Vec<Run> {
    let file: Result<File, _> = toml::from_str(include_str!("runs.toml"));
    let file = file.unwrap_or_else(|why| panic!("runs.toml: {why}"));
    let prelude = file.prelude;
    let runs = file.runs.into_iter().map(|(name, run)| Run {
        name,
        program: run.program.map(|it| format!("{prelude}\n{it}")),
        ..run
    });
    runs.collect()
}
