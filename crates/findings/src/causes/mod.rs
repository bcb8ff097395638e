//! The causes of hangs, failures and slow collectives, as data.
//!
//! ```
//! let text = "Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152";
//! let cause = findings::causes::of_warning(text).map(|cause| cause.id);
//! assert_eq!(cause, Some("nvls-bind"));
//! ```
//!
//! `topo diagnose --log` explains warnings with this table, `topo doctor` takes titles and advice
//! from it, and `topo diagnose` names its causes. In reading order: `cause` (a cause and its
//! signs), `table` (the causes by subject).

mod cause;
pub mod table;

pub use cause::{Cause, Certainty, Scope, Sign, Subject};

/// All causes: by subject, the narrow ones first.
pub fn all() -> impl Iterator<Item = &'static Cause> {
    table::TABLES.iter().copied().flatten().copied()
}

/// The cause that a warning of NCCL shows.
pub fn of_warning(text: &str) -> Option<&'static Cause> {
    all().find(|cause| cause.signs.iter().any(|sign| sign.is_in(text)))
}
