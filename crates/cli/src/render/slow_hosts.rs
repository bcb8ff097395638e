//! The slow hosts of a job, as text.

pub(crate) use answers::head::slow_hosts::quiet;
use plan::Plan;

use super::Look;

/// The lines of a page's head.
pub(crate) fn lines(plan: &Plan, look: Look) -> String {
    look.fields(&answers::head::slow_hosts::fields(plan))
}

/// The machines of a job with the channels that each found, equal ones in one row.
pub(crate) fn table(plan: &Plan, look: Look) -> String {
    let table = answers::head::slow_hosts::table(plan);
    pages::Section::default().table(table).text(look)
}
