//! The content of NCCL's log, and its comparison with the plan for a machine.

mod against_plan;
pub(crate) mod page;

use pages::Page;
use records::nccl_log::Log;
use records::nccl_log::statement::Stage;
use serde::Serialize;

use crate::JsonSchema;
use crate::report::Report;

pub use against_plan::{ComparedField, Comparison, LogError, LogQuestion, compare};
pub(crate) use against_plan::{IGNORED, settings, version};

/// Whether there is something to look at: a warning, or a host or rank that is odd or not ready.
pub fn is_odd(log: &Log) -> bool {
    let unready =
        |stage: Option<Stage>| matches!(stage, Some(Stage::Start | Stage::Shape | Stage::Aborted));
    let mut members = log.communicators.iter().flat_map(|it| &it.members);
    !log.warnings.is_empty()
        || !log.odd_hosts.is_empty()
        || log.communicators.iter().any(|it| !it.odd_ranks.is_empty())
        || members.any(|it| unready(it.stage))
}

/// The content of NCCL's log.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LogReport {
    /// NCCL warns, or a host or rank is odd or not ready.
    odd: bool,
    /// The log.
    #[serde(flatten)]
    pub log: Log,
    /// The comparison with a plan.
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<Comparison>,
}

impl Report for LogReport {
    const FORMAT: &'static str = "topo-log";
    const VERSION: u32 = 1;

    fn as_page(&self) -> Option<Page> {
        Some(self.page())
    }
}

impl LogReport {
    /// The report of a log, and of its comparison if there is one.
    pub fn of(log: Log, comparison: Option<Comparison>) -> Self {
        Self {
            odd: is_odd(&log),
            log,
            comparison,
        }
    }
}
