//! NCCL's variables in force, as text.

pub(crate) use answers::head::notes as warnings;
use plan::Setting;
use planner::Settings;

use super::Look;

/// One line per kind of variable, and one per remark.
pub(crate) fn lines(settings: &Settings, look: Look) -> String {
    look.fields(&answers::head::settings(settings))
}

/// The settings of a plan, which keeps those that can change a decision.
pub(crate) fn of_plan(settings: &[Setting], look: Look) -> String {
    look.fields(&[answers::head::settings_of_plan(settings)])
}
