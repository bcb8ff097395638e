//! Devices that a file leaves to NCCL, and what is assumed of them.

use std::fmt;
use std::sync::Arc;

use findings::complete::{self, Assumptions, MissingParts};
use planner::explain::{count, ranges};
use topology::xml::Document;

/// Most bus ids in a sentence.
const NAMED: usize = 3;

/// Devices that a file lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incomplete {
    /// The file.
    pub file: String,
    /// The missing part.
    pub missing: MissingParts,
    /// A known machine with such GPUs, by the name of its assumptions.
    pub like: &'static str,
}

/// An assumption that does not fit a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an assumed NVLink: {file} has no GPU{gpu}; it has GPU {}", ranges(.known, ", "))]
pub struct AssumeError {
    /// The file.
    pub file: String,
    /// The device number.
    pub gpu: i32,
    /// Those that there are.
    pub known: Vec<i32>,
}

impl Incomplete {
    /// The missing parts of a document, if there are any.
    pub fn of(document: &Document, missing: MissingParts) -> Option<Self> {
        let (_, kinds) = complete::without_links(document);
        let known = kinds.iter().find_map(|sm| Assumptions::with_nvswitch(*sm));
        (!missing.is_empty()).then(|| Self {
            file: document.file.to_string(),
            missing,
            like: known.map_or("h100-sxm", |(name, _)| name),
        })
    }
}

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |bus_ids: &[String], kind: &str, tag: &str| {
            let mut named: Vec<&str> = bus_ids.iter().take(NAMED).map(String::as_str).collect();
            if bus_ids.len() > NAMED {
                named.push("…");
            }
            (!bus_ids.is_empty()).then(|| {
                let count = count(bus_ids.len(), kind);
                format!("{count} without <{tag}> ({})", named.join(", "))
            })
        };
        let lists = [
            list(&self.missing.gpus, "GPU", "gpu"),
            list(&self.missing.nics, "NIC", "net"),
            list(&self.missing.nvlinks, "GPU", "nvlink"),
        ];
        let lists: Vec<String> = lists.into_iter().flatten().collect();
        write!(
            f,
            "{} leaves to NCCL what it finds on the machine: {}; say what they are",
            self.file,
            lists.join(", ")
        )
    }
}

/// The document with what is assumed of it, and what it still lacks.
///
/// # Errors
/// An assumed NVLink leads to a GPU that is not there.
pub fn completed(
    document: &Arc<Document>,
    assume: &Assumptions,
) -> Result<(Arc<Document>, Option<Incomplete>), AssumeError> {
    let completed = match *assume == Assumptions::default() {
        true => Arc::clone(document),
        false => Arc::new(complete::complete(document, assume)),
    };
    let known = complete::devices(&completed);
    let mut named = assume.nvlinks.iter().flat_map(|link| link.between);
    if let Some(gpu) = named.find(|dev| !known.contains(dev)) {
        let file = document.file.to_string();
        return Err(AssumeError { file, gpu, known });
    }
    let mut missing = MissingParts::of(&completed);
    let (_, kinds) = complete::without_links(&completed);
    if assume.gpu.is_some_and(|gpu| kinds.contains(&gpu.sm)) {
        // These GPUs are described, so those without NVLinks have none.
        missing.nvlinks.clear();
    }
    let incomplete = Incomplete::of(&completed, missing);
    Ok((completed, incomplete))
}
