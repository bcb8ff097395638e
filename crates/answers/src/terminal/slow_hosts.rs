//! The slow hosts of a job, as text.

pub use crate::head::slow_hosts::quiet;
use plan::Plan;

use super::Look;

/// The lines of a page's head.
pub fn lines(plan: &Plan, look: Look) -> String {
    look.fields(&crate::head::slow_hosts::fields(plan))
}

/// The machines of a job with the channels that each found, equal ones in one row.
pub fn table(plan: &Plan, look: Look) -> String {
    let table = crate::head::slow_hosts::table(plan);
    pages::Section::default().table(table).text(look)
}
