//! NCCL's variables in force, as text.

pub use crate::head::notes as warnings;
use plan::Setting;
use planner::Settings;

use super::Look;

/// One line per kind of variable, and one per remark.
pub fn lines(settings: &Settings, look: Look) -> String {
    look.fields(&crate::head::settings(settings))
}

/// The settings of a plan, which keeps those that can change a decision.
pub fn of_plan(settings: &[Setting], look: Look) -> String {
    look.fields(&[crate::head::settings_of_plan(settings)])
}
