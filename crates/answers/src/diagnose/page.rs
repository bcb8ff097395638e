//! A diagnosis as a page, and the causes that it knows.

use diagnose::job_facts::JobFacts;
use diagnose::verdict::ranks;
use diagnose::{Diagnosis, FirstError, Verdict};
use findings::causes::Certainty;
use pages::numbers::count;
use pages::{Page, Section, Tone};

use super::CausesReport;
use crate::log::page::{few, lines, odd, settings};

/// Most inputs that are listed by name.
const MOST_INPUTS: usize = 8;

/// Most verdicts with their evidence; of more, what happened and what to do.
const MOST_WHOLE: usize = 3;

/// The page: verdicts, what ran, what is odd, how many lines are not known, what would tell more.
pub fn page(diagnosis: &Diagnosis) -> Page {
    let mut page = Page::default();
    for (number, it) in diagnosis.verdicts.iter().enumerate() {
        let title = format!("{}: {}", it.certainty.name(), it.cause.title);
        let section = page.section(title, it.cause.id);
        if it.certainty == Certainty::Proved {
            section.tone = Tone::Notice;
        }
        verdict(section, it, number < MOST_WHOLE);
    }
    if diagnosis.verdicts.is_empty() {
        page.section("No verdict", "the evidence names no cause");
    }
    // A proved cause explains the first error, or that is none.
    let is_proved = |it: &Verdict| it.certainty == Certainty::Proved;
    if let Some(error) = &diagnosis.first_error
        && !diagnosis.verdicts.iter().any(is_proved)
    {
        unexplained(&mut page, error, diagnosis.unknown);
    }
    if let Some(it) = &diagnosis.ran {
        ran(page.section("Ran", "by the lines of NCCL"), it);
    }
    odd(&mut page, &diagnosis.oddities);
    if !diagnosis.missing.is_empty() {
        let section = page.section("Missing", "what would tell more");
        for it in &diagnosis.missing {
            section.item(format!("{}: {}", it.what, it.how));
        }
    }
    inputs(&mut page, diagnosis);
    page
}

fn verdict(section: &mut Section, it: &Verdict, is_whole: bool) {
    section.say(&it.what);
    let mut places = Vec::new();
    if !it.ranks.is_empty() {
        places.push(ranks(&it.ranks));
    }
    if !it.hosts.is_empty() {
        places.push(format!("on {}", few(&it.hosts)));
    }
    places.extend(
        it.group
            .iter()
            .map(|group| match group.starts_with("group") {
                true => group.clone(),
                false => format!("group {group}"),
            }),
    );
    places.extend(it.collective.clone());
    if !it.devices.is_empty() {
        places.push(few(&it.devices));
    }
    if !places.is_empty() {
        section.field("where", places.join(", "));
    }
    for line in it.lines.iter().filter(|_| is_whole) {
        let place = match line.number {
            Some(number) => format!("{}:{number}", line.input),
            None => line.input.clone(),
        };
        section.field("because", format!("{place}: {}", line.text));
    }
    for next in &it.next {
        section.field("do", next);
    }
    if is_whole {
        for it in &it.alternatives {
            let other = format!("{} ({}): {}", it.title, it.cause, it.tell);
            section.field("or", other);
        }
        sources(section, it.cause.sources);
    } else if !it.lines.is_empty() {
        let lines = count(it.lines.len(), "line");
        section
            .faint(format!("{lines} of evidence"))
            .hint("(--json)");
    }
}

/// The first error that no cause explains, and how many more are in no table.
fn unexplained(page: &mut Page, error: &FirstError, unknown: u64) {
    let what = match error.is_passed_on {
        true => "the first failure in these inputs; no line names its cause",
        false => "no table has this warning",
    };
    let section = page.section("First error", what);
    let line = &error.line;
    let number = line.number.map_or(String::new(), |it| format!(":{it}"));
    section.field("line", format!("{}{number}: {}", line.input, line.text));
    let rank = error.rank.map(|it| format!("rank {it}"));
    let process = error.process.as_ref();
    let process = process.map(|it| {
        let gpu = it.gpu.map_or(String::new(), |it| format!(", GPU {it}"));
        format!("{}, process {}{gpu}", it.host, it.number)
    });
    let by: Vec<String> = rank.into_iter().chain(process).collect();
    if !by.is_empty() {
        section.field("by", by.join(", "));
    }
    if let (Some(place), Some(of_place)) = (&error.place, error.of_place) {
        section.field("there", format!("{place}: {of_place}"));
    }
    for (name, value) in [("means", error.means), ("do", error.advice)] {
        if let Some(value) = value {
            section.field(name, value);
        }
    }
    if unknown > 1 {
        section.field("more", format!("{unknown} warnings that no table has"));
    }
}

fn ran(section: &mut Section, it: &JobFacts) {
    let hosts = format!("{}: {}", count(it.hosts.len(), "host"), few(&it.hosts));
    let ranks = it.ranks.map(|ranks| match it.communicators {
        1 => ranks.to_string(),
        all => format!("{ranks} in the largest of {all} communicators"),
    });
    let full = "more was said than is kept: what came last is missing";
    let fields = [
        ("NCCL", (!it.versions.is_empty()).then(|| few(&it.versions))),
        ("hosts", (!it.hosts.is_empty()).then_some(hosts)),
        ("ranks", ranks),
        ("runs", (it.runs > 1).then(|| it.runs.to_string())),
        ("settings", settings(&it.settings)),
        ("lines", Some(lines(&it.lines))),
        ("note", it.incomplete.then(|| full.to_owned())),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            section.field(name, value);
        }
    }
}

/// Where a cause is known from, if there is a place.
fn sources(section: &mut Section, sources: &[&str]) {
    if !sources.is_empty() {
        section.field("see", sources.join("; "));
    }
}

fn inputs(page: &mut Page, diagnosis: &Diagnosis) {
    let (read, failed): (Vec<_>, Vec<_>) = diagnosis.inputs.iter().partition(|it| it.is_read);
    let section = page.section("Inputs", count(diagnosis.inputs.len(), "input"));
    for all in [failed, read] {
        for it in all.iter().take(MOST_INPUTS) {
            let text = format!("{}: {}", it.name, it.kind);
            match it.is_read {
                true => section.item(text),
                false => section.notice(text),
            };
            for said in &it.says {
                section.below(said);
            }
        }
        if all.len() > MOST_INPUTS {
            let more = all.len() - MOST_INPUTS;
            section.say(format!("and {more} more")).hint("(--json)");
        }
    }
}

impl CausesReport {
    /// The page: the causes, by subject.
    pub fn page(&self) -> Page {
        let mut page = Page::default();
        for of_subject in self.causes.chunk_by(|a, b| a.subject == b.subject) {
            let section = page.section(of_subject[0].subject, "");
            for cause in of_subject {
                section.item(format!("{}  {}", cause.id, cause.title));
                let lines = [
                    ("means", cause.means),
                    ("do", cause.advice),
                    ("versions", cause.versions),
                    ("proof", cause.proof),
                    ("not if", cause.excluded),
                    ("unseen", cause.unseen),
                ];
                for (name, value) in lines.into_iter().filter(|it| !it.1.is_empty()) {
                    section.field(name, value);
                }
                sources(section, cause.sources);
            }
        }
        page
    }
}
