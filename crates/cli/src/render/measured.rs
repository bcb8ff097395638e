//! Measured links, as a part of pages.

use answers::measured::fit::Capacity;
use answers::measured::{MeasuredDirection, MeasuredLinks};
use answers::names::shorten;

use super::table::Columns;
use super::{Look, count, or_dash, wrap};

/// What the marks of the table mean.
const MARKS: &str = "A number alone: the link limits transfers, and nothing else can. ≥: it never limited one; what it \
carried is the least that it has, and where NCCL takes it for more, that is used. A letter: it or another link \
with this letter is the limit.";

/// Most links of a group that are named.
const MOST_NAMES: usize = 24;

/// The links, what cannot be told apart, and how well the capacities explain the measurements.
pub(crate) fn section(measured: &MeasuredLinks, look: Look) -> String {
    let title = format!("GB/s in each direction, from {}", measured.source);
    let mut text = look.section("Measured links", &title, &table(measured, look));
    let mut say = |line: &str| text.push_str(&look.faint(&wrap(line, "  ", "  ", look.width)));
    say(MARKS);
    for (at, (names, least, most)) in measured.joint.iter().enumerate() {
        say(&format!(
            "{}: not separable, {}: {}. In every transfer over them at least one has what it shows, and the \
             others have no less.",
            letter(at as u32),
            range(*least, *most),
            listed(names)
        ));
    }
    for (names, gbps) in &measured.in_series {
        say(&format!(
            "In series, {gbps:.1} together: {}. Every transfer crosses all of them: only the least of them is known.",
            listed(names)
        ));
    }
    for check in &measured.checks {
        let (name, was, expected) = &check.worst;
        let fitted = if check.fitted { "" } else { ", not fitted to" };
        say(&format!(
            "{}{fitted}: {}, half within {:.1} % of what these links give; farthest off {name}, {was:.1} measured, \
             {expected:.1} expected.",
            check.test,
            count(check.values, "value"),
            100.0 * check.median
        ));
    }
    if let Some(step) = &measured.step {
        say(&format!(
            "A step with Simple takes {:.2} µs (NCCL: {:.2}): a write over a hop of the rings takes {:.2} µs, and data, \
             its acknowledgement and its counter cross it.",
            step.used_us(),
            step.stated_us,
            step.hop_us
        ));
    }
    for note in &measured.notes {
        text.push_str(&look.notice(&wrap(note, "  ", "  ", look.width)));
    }
    text
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

fn table(measured: &MeasuredLinks, look: Look) -> String {
    let headers = ["link", "", "NCCL →", "←", "measured →", "←"];
    let mut table = Columns::new(look, &headers).right(&[2, 3, 4, 5]);
    let stated = |direction: &Option<MeasuredDirection>| {
        or_dash(direction.as_ref().map(|it| format!("{:.1}", it.stated)))
    };
    let seen = |direction: &Option<MeasuredDirection>| {
        or_dash(direction.as_ref().map(|it| match it.capacity {
            Capacity::Known(gbps) => format!("{gbps:.1}"),
            Capacity::AtLeast(gbps) => format!("≥ {gbps:.1}"),
            Capacity::OneOf { set, gbps } => format!("{} {gbps:.1}", letter(set)),
        }))
    };
    for link in &measured.links {
        table.row(vec![
            format!("{} – {}", link.ends[0], link.ends[1]),
            link.kind.name().to_owned(),
            stated(&link.directions[0]),
            stated(&link.directions[1]),
            seen(&link.directions[0]),
            seen(&link.directions[1]),
        ]);
    }
    table.finish()
}
