//! Measured links, as a section of pages.

use pages::numbers::{count, or_dash};
use pages::{Section, Table, row};

use super::{CapacityKind, MeasuredLink, MeasuredLinks};
use crate::names::shorten;

/// What the marks of the table mean.
const MARKS: &str = "A number alone: the link limits transfers, and nothing else can. ≥: it never limited one; what it \
carried is the least that it has, and where NCCL takes it for more, that is used. A letter: it or another link \
with this letter is the limit.";

/// Most links of a group that are named.
const MOST_NAMES: usize = 24;

/// The links, what cannot be told apart, and how well the capacities explain the measurements.
pub fn section(measured: &MeasuredLinks) -> Section {
    let mut section = Section {
        title: "Measured links".to_owned(),
        remark: format!("GB/s in each direction, from {}", measured.source),
        ..Section::default()
    };
    section.table(table(measured)).faint(MARKS);
    for (at, joint) in measured.not_separable.iter().enumerate() {
        section.faint(format!(
            "{}: not separable, {}: {}. In every transfer over them at least one has what it shows, and the \
             others have no less.",
            letter(at as u32),
            range(joint.least_gbps, joint.most_gbps),
            listed(&joint.links)
        ));
    }
    for series in &measured.in_series {
        section.faint(format!(
            "In series, {:.1} together: {}. Every transfer crosses all of them: only the least of them is known.",
            series.gbps,
            listed(&series.links)
        ));
    }
    for check in &measured.checks {
        let (name, was) = (&check.worst, check.worst_measured_gbps);
        let expected = check.worst_expected_gbps;
        let fitted = if check.fitted { "" } else { ", not fitted to" };
        section.faint(format!(
            "{}{fitted}: {}, half within {:.1} % of what these links give; farthest off {name}, {was:.1} measured, \
             {expected:.1} expected.",
            check.test,
            count(check.values, "value"),
            100.0 * check.median_error
        ));
    }
    if let Some(step) = &measured.simple_step {
        section.faint(format!(
            "A step with Simple takes {:.2} µs (NCCL: {:.2}): a write over a hop of the rings takes {:.2} µs, and data, \
             its acknowledgement and its counter cross it.",
            step.used_us,
            step.nccl_us,
            step.hop_us
        ));
    }
    for note in &measured.notes {
        section.notice(note);
    }
    section
}

fn range(least: f64, most: f64) -> String {
    let [least, most] = [least, most].map(|it| format!("{it:.1}"));
    match least == most {
        true => least,
        false => format!("{least}–{most}"),
    }
}

fn listed(names: &[String]) -> String {
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let short = shorten(&all);
    let shown: Vec<&str> = short.iter().map(String::as_str).take(MOST_NAMES).collect();
    match short.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// `a`, `b` … `z`, `a1` …
fn letter(set: u32) -> String {
    let letter = char::from(b'a' + (set % 26) as u8);
    match set / 26 {
        0 => letter.to_string(),
        round => format!("{letter}{round}"),
    }
}

fn table(measured: &MeasuredLinks) -> Table {
    let mut table = Table::new(["link", "", ">NCCL →", ">←", ">measured →", ">←"]);
    let seen = |link: &MeasuredLink| match link.certainty {
        CapacityKind::Known => format!("{:.1}", link.measured_gbps),
        CapacityKind::AtLeast => format!("≥ {:.1}", link.measured_gbps),
        CapacityKind::OneOf => {
            let letter = letter(link.not_separable.unwrap_or(0));
            format!("{letter} {:.1}", link.measured_gbps)
        }
    };
    let is_back = |one: &MeasuredLink, next: &MeasuredLink| {
        (&one.from, &one.to, one.kind) == (&next.to, &next.from, next.kind)
    };
    let mut links = measured.links.iter().peekable();
    while let Some(link) = links.next() {
        let back = links.next_if(|next| is_back(link, next));
        table.row(row![
            format!("{} – {}", link.from, link.to),
            link.kind,
            format!("{:.1}", link.nccl_gbps),
            or_dash(back.map(|it| format!("{:.1}", it.nccl_gbps))),
            seen(link),
            or_dash(back.map(seen)),
        ]);
    }
    table
}
