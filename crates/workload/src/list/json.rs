//! A list of calls as JSON.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Builder, Entry, from_one, time};
use crate::call::{Pipeline, Workload};
use crate::error::WorkloadError;
use crate::groups::Members;

/// The names of a list's fields.
const FIELDS: [&str; 5] = [
    "\"calls\"",
    "\"groups\"",
    "\"ranks\"",
    "\"pipeline\"",
    "\"compute",
];

/// A list as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    ranks: Option<u32>,
    #[serde(default)]
    groups: BTreeMap<String, Shape>,
    calls: Vec<Entry>,
    compute_after_us: Option<f64>,
    pipeline: Option<Stages>,
}

/// The ranks of a group: a shape, or the ranks of each communicator.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Shape {
    Text(String),
    Ranks(Vec<Vec<u32>>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stages {
    stages: u32,
    #[serde(default = "one")]
    chunks: u32,
    micro_batches: u32,
}

const fn one() -> u32 {
    1
}

/// Whether a text is meant as such a list: an object that begins with one of its fields.
pub fn is_one(text: &str) -> bool {
    let inside = text.trim_start().strip_prefix('{').map(str::trim_start);
    inside.is_some_and(|inside| FIELDS.iter().any(|field| inside.starts_with(field)))
}

/// Reads a list.
///
/// # Errors
/// It is no such list.
pub fn read(file: &str, text: &str) -> Result<Workload, WorkloadError> {
    let list: List = serde_json::from_str(text)
        .map_err(|error| WorkloadError::new(file, error.line() as u64, error.to_string()))?;
    let mut builder = Builder::default();
    let wrong = |why: String| WorkloadError::new(file, 1, why);
    for (name, shape) in list.groups {
        let members = match shape {
            Shape::Text(text) => text.parse(),
            Shape::Ranks(lists) => Members::listed(lists),
        };
        let members = members.map_err(|why| wrong(format!("group {name}: {why}")))?;
        builder.group(&name, members).map_err(wrong)?;
    }
    for (at, entry) in list.calls.iter().enumerate() {
        let added = builder.add(entry);
        added.map_err(|why| wrong(format!("calls[{at}]: {why}")))?;
    }
    let pipeline = list.pipeline.map(Stages::pipeline).transpose();
    let ranks = list.ranks.map(|it| from_one("ranks", it)).transpose();
    Ok(Workload {
        ranks: ranks.map_err(wrong)?,
        compute_after_us: time("compute_after_us", list.compute_after_us).map_err(wrong)?,
        pipeline: pipeline.map_err(wrong)?,
        ..builder.finish()
    })
}

impl Stages {
    fn pipeline(self) -> Result<Pipeline, String> {
        Ok(Pipeline {
            stages: from_one("pipeline.stages", self.stages)?,
            chunks: from_one("pipeline.chunks", self.chunks)?,
            micro_batches: from_one("pipeline.micro_batches", self.micro_batches)?,
        })
    }
}
