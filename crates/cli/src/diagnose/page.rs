//! The page of `topo diagnose`.

use diagnose::verdict::ranks;
use diagnose::{Diagnosis, FirstError, Verdict};
use findings::causes::{Cause, Certainty, Subject};

use crate::render::{Look, count, wrap};

/// Most inputs that are listed by name.
const SHOWN: usize = 8;

pub(super) fn page(diagnosis: &Diagnosis, look: Look) -> String {
    let mut text = String::new();
    for verdict in &diagnosis.verdicts {
        text.push_str(&block(verdict, look));
        text.push('\n');
    }
    if diagnosis.verdicts.is_empty() {
        text.push_str("no verdict: the evidence names no cause\n\n");
    }
    // A proved cause explains the first error, or that is none.
    let is_proved = |it: &Verdict| it.certainty == Certainty::Proved;
    if let Some(error) = &diagnosis.first_error
        && !diagnosis.verdicts.iter().any(is_proved)
    {
        text.push_str(&unexplained(error, diagnosis.unknown, look));
    }
    if !diagnosis.missing.is_empty() {
        text.push_str(&look.title("Missing", "what would tell more"));
        for it in &diagnosis.missing {
            text.push_str(&wrap(
                &format!("{}: {}", it.what, it.how),
                "  ",
                "    ",
                look.width,
            ));
        }
        text.push('\n');
    }
    text.push_str(&inputs(diagnosis, look));
    text
}

fn block(verdict: &Verdict, look: Look) -> String {
    let title = format!("{}: {}", verdict.certainty.name(), verdict.cause.title);
    let heading = match verdict.certainty {
        Certainty::Proved => look.notice(&title),
        Certainty::Likely | Certainty::Possible => look.heading(&title),
    };
    let mut text = format!("{heading}  {}\n", look.faint(verdict.cause.id));
    text.push_str(&wrap(&verdict.what, "  ", "  ", look.width));
    let mut places = Vec::new();
    if !verdict.ranks.is_empty() {
        places.push(ranks(&verdict.ranks));
    }
    if !verdict.hosts.is_empty() {
        places.push(format!("on {}", few(&verdict.hosts)));
    }
    places.extend(
        verdict
            .group
            .iter()
            .map(|it| match it.starts_with("group") {
                true => it.clone(),
                false => format!("group {it}"),
            }),
    );
    places.extend(verdict.collective.clone());
    if !verdict.devices.is_empty() {
        places.push(few(&verdict.devices));
    }
    if !places.is_empty() {
        text.push_str(&look.field("where", &places.join(", ")));
    }
    for line in &verdict.lines {
        let place = match line.number {
            Some(number) => format!("{}:{number}", line.input),
            None => line.input.clone(),
        };
        text.push_str(&look.field("because", &format!("{place}: {}", line.text)));
    }
    for next in &verdict.next {
        text.push_str(&look.field("do", next));
    }
    for it in &verdict.alternatives {
        let other = format!("{} ({}): {}", it.title, it.cause, it.tell);
        text.push_str(&look.field("or", &other));
    }
    text.push_str(&sources(verdict.cause, look));
    text
}

/// The first error that no cause explains, and how many more are in no table.
fn unexplained(error: &FirstError, unknown: u64, look: Look) -> String {
    let what = match error.is_passed_on {
        true => "the first failure in these inputs; no line names its cause",
        false => "no table has this warning",
    };
    let mut text = look.title("First error", what);
    let number = error
        .line
        .number
        .map_or(String::new(), |it| format!(":{it}"));
    let line = format!("{}{number}: {}", error.line.input, error.line.text);
    text.push_str(&look.field("line", &line));
    let rank = error.rank.map(|it| format!("rank {it}"));
    let process = error.process.as_ref();
    let process = process.map(|it| {
        let gpu = it.gpu.map_or(String::new(), |it| format!(", GPU {it}"));
        format!("{}, process {}{gpu}", it.host, it.number)
    });
    let by: Vec<String> = rank.into_iter().chain(process).collect();
    if !by.is_empty() {
        text.push_str(&look.field("by", &by.join(", ")));
    }
    if let (Some(place), Some(of_place)) = (&error.place, error.of_place) {
        text.push_str(&look.field("there", &format!("{place}: {of_place}")));
    }
    for (name, value) in [("means", error.means), ("do", error.advice)] {
        if let Some(value) = value {
            text.push_str(&look.field(name, value));
        }
    }
    if unknown > 1 {
        text.push_str(&look.field("more", &format!("{unknown} warnings that no table has")));
    }
    text.push('\n');
    text
}

/// Where a cause is known from, if there is a place.
fn sources(cause: &Cause, look: Look) -> String {
    match cause.sources {
        [] => String::new(),
        sources => look.field("see", &sources.join("; ")),
    }
}

fn few(names: &[String]) -> String {
    let more = names.len().saturating_sub(SHOWN);
    let shown = names[..names.len() - more].join(", ");
    match more {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn inputs(diagnosis: &Diagnosis, look: Look) -> String {
    let (read, failed): (Vec<_>, Vec<_>) = diagnosis.inputs.iter().partition(|it| it.is_read);
    let mut text = look.title("Inputs", &count(diagnosis.inputs.len(), "input"));
    for all in [failed, read] {
        for it in all.iter().take(SHOWN) {
            text.push_str(&wrap(
                &format!("{}: {}", it.name, it.kind),
                "  ",
                "    ",
                look.width,
            ));
        }
        if all.len() > SHOWN {
            text.push_str(&format!("  and {} more (--json)\n", all.len() - SHOWN));
        }
    }
    text
}

/// The table of causes.
pub(super) fn causes(look: Look) -> String {
    let mut text = String::new();
    for subject in Subject::ALL {
        text.push_str(&format!("{}\n", look.heading(subject.name())));
        for cause in findings::causes::all().filter(|it| it.subject == subject) {
            let head = format!("{}  {}", cause.id, cause.title);
            text.push_str(&wrap(&head, "  ", "    ", look.width));
            let lines = [
                ("means", cause.means),
                ("do", cause.advice),
                ("versions", cause.versions),
                ("proof", cause.proof),
                ("not if", cause.excluded),
                ("unseen", cause.unseen),
            ];
            for (name, value) in lines.into_iter().filter(|it| !it.1.is_empty()) {
                text.push_str(&look.field(name, value));
            }
            text.push_str(&sources(cause, look));
        }
        text.push('\n');
    }
    text
}
