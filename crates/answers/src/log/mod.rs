//! The content of NCCL's log, and its comparison with the plan for a machine.

mod against_plan;
pub mod json;
mod page;
mod rebuilt;

use nccl_log::Log;
use nccl_log::statement::Stage;

pub use against_plan::{ComparedField, Comparison, LogError, LogQuestion, compare};
pub(crate) use against_plan::{IGNORED, settings, version};
pub use json::LogReport;
pub use rebuilt::{rings, trees};

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

/// Whether no line is NCCL's.
pub const fn has_nothing(log: &Log) -> bool {
    log.counts.recognized + log.counts.ignored + log.counts.warnings == 0
}

/// The name of a pattern of the search by its number in the log.
pub const fn pattern(number: u32) -> &'static str {
    match number {
        1 => "balanced tree",
        2 => "split tree",
        3 => "tree",
        4 => "ring",
        5 => "NVLS",
        6 => "CollNet direct",
        _ => "unknown",
    }
}
