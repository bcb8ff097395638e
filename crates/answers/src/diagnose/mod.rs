//! The reasons why a job hangs or fails, the causes that are known, and the planner's price of a
//! call that did not end.

mod page;
mod price;

use crate::JsonSchema;
use diagnose::Diagnosis;
use findings::causes::Cause;
use pages::Page;
use serde::Serialize;

use crate::report::Report;
pub use page::page;
pub use price::Prices;

impl Report for Diagnosis {
    const FORMAT: &'static str = "topo-diagnose";
    const VERSION: u32 = 1;

    fn as_page(&self) -> Option<Page> {
        Some(page(self))
    }
}

/// The causes that `topo diagnose` names.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CausesReport {
    /// The causes, by subject.
    causes: Vec<CauseRow>,
}

/// A cause.
#[derive(Debug, Serialize, JsonSchema)]
struct CauseRow {
    /// Its id; ids never change.
    id: &'static str,
    /// Its subject.
    subject: &'static str,
    /// The problem, in a few words.
    title: &'static str,
    /// What it means.
    means: &'static str,
    /// What to do.
    advice: &'static str,
    /// The versions of NCCL that have it.
    versions: &'static str,
    /// Words of lines that show it: all of a list, in one line.
    signs: Vec<&'static [&'static str]>,
    /// What proves it.
    proof: &'static str,
    /// What excludes it.
    excluded: &'static str,
    /// Why no evidence that jobs leave shows it, so that `topo diagnose` never names it.
    #[serde(skip_serializing_if = "str::is_empty")]
    unseen: &'static str,
    /// Public threads and documents.
    sources: &'static [&'static str],
}

impl Report for CausesReport {
    const FORMAT: &'static str = "topo-causes";
    const VERSION: u32 = 1;
}

impl CausesReport {
    /// All causes.
    pub fn all() -> Self {
        let row = |it: &'static Cause| CauseRow {
            id: it.id,
            subject: it.subject.name(),
            title: it.title,
            means: it.means,
            advice: it.advice,
            versions: it.versions,
            signs: it.signs.iter().map(|it| it.words).collect(),
            proof: it.proof,
            excluded: it.excluded,
            unseen: it.unseen,
            sources: it.sources,
        };
        Self {
            causes: findings::causes::all().map(row).collect(),
        }
    }
}
