//! NCCL's variables in force, and what is odd about them.

use plan::Setting;
use planner::Settings;
use planner::settings::{SettingEffect, effect};

use super::{FIELD, Look, wrap};

/// One line per kind of variable, and one per remark.
pub(crate) fn lines(settings: &Settings, look: Look) -> String {
    let is_noted = |name: &str| settings.notes.iter().any(|note| note.name == name);
    let decides = |name: &str| {
        let is_quiet = |it| matches!(it, SettingEffect::Memory | SettingEffect::Nothing);
        !effect(name).is_some_and(is_quiet)
    };
    let deciding: Vec<String> = settings
        .in_force
        .iter()
        .filter(|(name, _)| decides(name) || is_noted(name))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let others: Vec<&str> = settings
        .in_force
        .iter()
        .map(|(name, _)| name.as_str())
        .filter(|name| !decides(name) && !is_noted(name))
        .collect();
    let mut text = match deciding.as_slice() {
        [] => look.field("settings", "NCCL's defaults"),
        given => look.field("settings", &given.join(" ")),
    };
    if !others.is_empty() {
        let remark = format!("set, but without effect on the plan: {}", others.join(" "));
        text.push_str(&look.faint(&wrap(&remark, FIELD, FIELD, look.width)));
    }
    for note in &settings.notes {
        let remark = format!("{}: {}", note.name, note.message);
        text.push_str(&look.notice(&wrap(&remark, FIELD, FIELD, look.width)));
    }
    text
}

/// The settings of a plan, which keeps those that can change a decision.
pub(crate) fn of_plan(settings: &[Setting], look: Look) -> String {
    if settings.is_empty() {
        return look.field("settings", "NCCL's defaults");
    }
    let given = settings
        .iter()
        .map(|setting| format!("{}={}", setting.name, setting.value));
    look.field("settings", &given.collect::<Vec<_>>().join(" "))
}

/// The remarks as warnings, for output that has no place for them.
pub(crate) fn warnings(settings: &Settings) -> impl Iterator<Item = String> {
    settings
        .notes
        .iter()
        .map(|note| format!("{}: {}", note.name, note.message))
}
