//! The ways of `ways.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The file.
#[derive(Deserialize)]
struct File {
    prelude: String,
    #[serde(flatten)]
    ways: BTreeMap<String, Run>,
}

/// A way in which a host is measured.
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
    /// The word of the verdict.
    pub(crate) verdict: String,
    /// Options of `topo expect`.
    #[serde(default)]
    pub(crate) options: Vec<String>,
    #[serde(default)]
    pub(crate) says: Vec<String>,
}

/// All ways, with whole programs.
pub(crate) fn runs() -> Vec<Run> {
    let file: Result<File, _> = toml::from_str(include_str!("ways.toml"));
    let file = file.unwrap_or_else(|why| panic!("ways.toml: {why}"));
    let prelude = file.prelude;
    let ways = file.ways.into_iter().map(|(name, run)| Run {
        name,
        program: run.program.map(|it| format!("{prelude}\n{it}")),
        ..run
    });
    ways.collect()
}
