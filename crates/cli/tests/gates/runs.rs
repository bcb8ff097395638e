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

/// What a program of a run has that does not end, and the seconds that gates wait for one, and for
/// others.
const HANGS: &str = "sleep 600";
const SECONDS: [&str; 2] = ["2", "20"];

impl Run {
    /// The longest that its program takes, s.
    pub(crate) fn longest(&self) -> &'static str {
        longest_of(self.program.as_deref().unwrap_or_default())
    }

    /// The variables of gates for the times that programs may take.
    pub(crate) fn limits(&self) -> impl Iterator<Item = String> {
        let of = |tool: &str| longest_of(self.tools.get(tool).map_or("", String::as_str));
        [
            format!("ALL_REDUCE_SECONDS={}", self.longest()),
            format!("SCONTROL_SECONDS={}", of("scontrol")),
            format!("KUBECTL_SECONDS={}", of("kubectl")),
        ]
        .into_iter()
    }
}

/// The longest that a program takes, s.
pub(crate) fn longest_of(program: &str) -> &'static str {
    SECONDS[usize::from(!program.contains(HANGS))]
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
