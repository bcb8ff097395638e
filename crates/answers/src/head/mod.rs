//! The head of a page about a job: its version, settings and slow hosts.

pub mod slow_hosts;

use pages::numbers::count;
use pages::{Field, Page, Tone};
use plan::{HostRange, NcclVersion, Plan, Setting};
use planner::Settings;
use planner::settings::{SettingEffect, effect};

use crate::names::few;

/// The version of a profile in words.
pub fn version(profile: &str) -> String {
    match NcclVersion::of_profile(profile) {
        Some(version) => version.name().to_owned(),
        None => profile.to_owned(),
    }
}

/// Whether binaries have judged the versions of profiles, so that JSON need not say them.
pub(crate) fn are_judged<'a>(profiles: impl IntoIterator<Item = &'a String>) -> bool {
    let mut versions = profiles
        .into_iter()
        .filter_map(|it| NcclVersion::of_profile(it));
    versions.all(|version| version.is_judged())
}

/// The head of a page about a planned job; `profile` is the one of its costs.
pub fn of_job(name: &str, plan: &Plan, profile: &str) -> Page {
    let mut page = Page::new(name);
    let (hosts, ranks) = (plan.request.hosts, plan.rank_count());
    let hosts = count(hosts as usize, "host");
    let ranks = count(ranks as usize, "rank");
    page.field("job", format!("{hosts}, {ranks}"));
    page.fields.extend(slow_hosts::fields(plan));
    page.field("nccl", version(&plan.profile));
    if profile != plan.profile {
        page.field("profile", profile);
    }
    page.fields.push(settings_of_plan(&plan.settings));
    page
}

/// The head of a page about several jobs with the same settings.
pub fn beside<'a>(jobs: impl Iterator<Item = (&'a str, &'a Plan)>) -> Page {
    let mut page = Page::new("side by side");
    let mut last = None;
    for (name, plan) in jobs {
        let hosts = count(plan.request.hosts as usize, "host");
        let ranks = count(plan.rank_count() as usize, "rank");
        let label = if last.is_none() { "jobs" } else { "" };
        page.field(label, format!("{name}: {hosts}, {ranks}"));
        last = Some(plan);
    }
    if let Some(plan) = last {
        page.field("nccl", version(&plan.profile));
        page.fields.push(settings_of_plan(&plan.settings));
    }
    page
}

/// `2 hosts like this one, 16 ranks, joined by the network`.
pub fn job(plan: &Plan) -> String {
    let ranks = plan.rank_count() as usize;
    let own = plan.machines.first();
    let domain = own.is_some_and(|own| own.hosts > 1);
    let hosts = count(plan.request.hosts as usize, "host");
    let hosts = match (domain, plan.machines.len(), plan.request.hosts) {
        (_, 2.., _) => hosts,
        (true, _, _) => format!("{hosts} in one NVLink domain"),
        (false, _, 1) => hosts,
        (false, _, _) => format!("{hosts} like this one"),
    };
    let inter = own.is_some_and(|own| own.groups.first().is_some_and(|group| group.inter));
    let network = match (inter, own.is_some_and(|own| own.gpus.len() == ranks)) {
        (false, _) => "",
        // Parts of one machine that only the network joins.
        (true, true) => ", not all joined inside it",
        (true, false) => ", joined by the network",
    };
    let reduces = match plan.request.collnet {
        true => ", which reduces (CollNet)",
        false => "",
    };
    format!("{hosts}, {}{network}{reduces}", count(ranks, "rank"))
}

/// What is said of a job without settings.
const DEFAULTS: &str = "NCCL's defaults";

/// One line per kind of variable, and one per remark.
pub fn settings(settings: &Settings) -> Vec<Field> {
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
    let given = match deciding.as_slice() {
        [] => DEFAULTS.to_owned(),
        given => given.join(" "),
    };
    let mut fields = vec![Field::new("settings", given)];
    if !others.is_empty() {
        let remark = format!("set, but without effect on the plan: {}", others.join(" "));
        fields.push(Field::remark(Tone::Faint, remark));
    }
    fields.extend(notes(settings).map(|it| Field::remark(Tone::Notice, it)));
    fields
}

/// The settings of a plan, which keeps those that can change a decision.
pub fn settings_of_plan(settings: &[Setting]) -> Field {
    let given = settings.iter();
    let given: Vec<String> = given
        .map(|it| format!("{}={}", it.name, it.value))
        .collect();
    match given.is_empty() {
        true => Field::new("settings", DEFAULTS),
        false => Field::new("settings", given.join(" ")),
    }
}

/// The remarks as warnings, for output that has no place for them.
pub fn notes(settings: &Settings) -> impl Iterator<Item = String> {
    settings
        .notes
        .iter()
        .map(|note| format!("{}: {}", note.name, note.message))
}

/// Hosts of a job: `0-2,4`.
pub fn hosts(ranges: &[HostRange]) -> String {
    let mut sorted = ranges.to_vec();
    sorted.sort_by_key(|range| range.first);
    let mut merged: Vec<HostRange> = Vec::new();
    for range in sorted {
        match merged.last_mut() {
            Some(before) if before.last.checked_add(1) == Some(range.first) => {
                before.last = range.last;
            }
            _ => merged.push(range),
        }
    }
    let one = |range: &HostRange| match range.last - range.first {
        0 => range.first.to_string(),
        1 => format!("{},{}", range.first, range.last),
        _ => format!("{}-{}", range.first, range.last),
    };
    merged.iter().map(one).collect::<Vec<_>>().join(",")
}

/// `host 3`, `hosts 0-2,4`.
pub fn hosts_in_words(ranges: &[HostRange]) -> String {
    let hosts = hosts(ranges);
    let word = match hosts.contains(['-', ',']) {
        true => "hosts",
        false => "host",
    };
    format!("{word} {hosts}")
}

/// The hosts that are some machines of a job, and the machines' names.
pub fn machines(plan: &Plan, members: &[usize]) -> (Vec<HostRange>, String) {
    let machines = members.iter().filter_map(|it| plan.machines.get(*it));
    (
        members.iter().flat_map(|it| plan.hosts_of(*it)).collect(),
        few(machines.map(|it| it.name.as_str()), ", "),
    )
}
