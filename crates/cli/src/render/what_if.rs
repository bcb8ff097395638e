//! The rest of a job after single failures, as a table.

use answers::names::shorten;
use answers::what_if::WhatIfAnswer;
use plan::certificate::Operation;
use planner::what_if::{EqualFailures, JobFigures};
use topology::edit::Failure;

use super::table::Columns;
use super::{Look, count, gbps, group, microseconds, trim_lines, version, wrap};
use crate::edits::option;
use crate::sizes::short;

/// The page. `time_limit`: seconds.
pub(crate) fn page(report: &WhatIfAnswer, time_limit: Option<u64>, look: Look) -> String {
    let job = &report.job;
    let mut text = format!("{}\n", look.heading(&job.name()));
    text.push_str(&look.field(
        "job",
        &format!(
            "{}, {}",
            count(job.plan().request.hosts as usize, "host"),
            count(report.whole.ranks as usize, "rank")
        ),
    ));
    text.push_str(&version::line(job.version(), look));
    text.push_str(&look.field("whole", &whole(report)));
    if let Some((whole, _)) = &report.bounds {
        let [gather, reduce] = most(whole);
        let line = format!("all-gather {gather} GB/s, all-reduce {reduce} GB/s by any schedule");
        text.push_str(&look.field("at most", &line));
    }
    text.push('\n');
    let failures: usize = report.rows.iter().map(|row| row.failures.len()).sum();
    let remark = format!(
        "worst first; loss: how much slower an all-reduce of this size gets{} (negative: faster)",
        if job.plan().request.hosts > 1 {
            " when the device fails on one host"
        } else {
            ""
        }
    );
    text.push_str(&look.title(&count(failures, "single failure"), &remark));
    text.push_str(&table(report, look));
    if let (Some(seconds), false) = (time_limit, report.left_out.is_empty()) {
        text.push('\n');
        let sentence = format!(
            "Not looked at within {seconds} s (--time-limit): {}",
            kinds(&report.left_out)
        );
        text.push_str(&look.notice(&wrap(&sentence, "  ", "  ", look.width)));
    }
    for row in report.rows.iter().filter(|row| row.left.is_err()) {
        let Err(problem) = &row.left else { continue };
        text.push('\n');
        let sentence = format!("Without {} NCCL cannot start: {problem}", names(row));
        text.push_str(&look.notice(&wrap(&sentence, "  ", "  ", look.width)));
    }
    if let Some(row) = report.rows.first() {
        text.push('\n');
        let hint = format!(
            "The first row again, in full: topo plan … {}",
            option(&row.failures[0].edit)
        );
        text.push_str(&look.faint(&wrap(&hint, "  ", "  ", look.width)));
    }
    trim_lines(&text)
}

/// How many there are of each kind.
fn kinds(failures: &[Failure]) -> String {
    let kinds = group(failures.iter().map(|failure| (failure.kind, ())));
    let each = kinds
        .iter()
        .map(|(kind, all)| format!("{kind}: {}", all.len()));
    each.collect::<Vec<_>>().join(", ")
}

fn whole(report: &WhatIfAnswer) -> String {
    let figures = &report.whole;
    let times = report
        .sizes
        .iter()
        .zip(&figures.times)
        .map(|(bytes, time)| {
            let time = time.map_or("no way".to_owned(), |time| {
                format!("{} µs", microseconds(f64::from(time)))
            });
            format!("{} in {time}", short(*bytes))
        });
    format!(
        "{}, rings {}; all-reduce of {}",
        count(figures.channels as usize, "channel"),
        rings(figures),
        times.collect::<Vec<_>>().join(", ")
    )
}

fn rings(figures: &JobFigures) -> String {
    let (channels, each) = figures.rings;
    format!("{channels} × {} GB/s", gbps(each))
}

fn table(report: &WhatIfAnswer, look: Look) -> String {
    let losses: Vec<String> = report
        .sizes
        .iter()
        .map(|bytes| format!("loss at {}", short(*bytes)))
        .collect();
    let mut headers = vec!["fails", "which", "ranks", "channels", "rings"];
    headers.extend(losses.iter().map(String::as_str));
    if report.bounds.is_some() {
        headers.extend(["all-gather ≤", "all-reduce ≤"]);
    }
    let right: Vec<usize> = (2..headers.len()).collect();
    let mut table = Columns::new(look, &headers).right(&right);
    for (at, row) in report.rows.iter().enumerate() {
        let failure = &row.failures[0];
        let kind = match failure.of {
            Some(1) | None => failure.kind.name().to_owned(),
            Some(of) => format!("one of {of} {}s", failure.kind),
        };
        let mut cells = vec![kind, names(row)];
        match &row.left {
            Ok(figures) => {
                cells.extend([
                    figures.ranks.to_string(),
                    figures.channels.to_string(),
                    rings(figures),
                ]);
                cells.extend(
                    row.losses
                        .iter()
                        .map(|loss| loss.map_or("no way".to_owned(), percent)),
                );
            }
            Err(_) => {
                cells.extend(["-".to_owned(), "-".to_owned(), "cannot start".to_owned()]);
                cells.extend(row.losses.iter().map(|_| "all".to_owned()));
            }
        }
        if let Some((_, rows)) = &report.bounds {
            cells.extend(most(rows.get(at).map_or(&[], Vec::as_slice)));
        }
        table.row(cells);
    }
    table.finish()
}

/// The most that any schedule of each of two operations reaches, GB/s.
fn most(bounds: &[(Operation, f64)]) -> [String; 2] {
    [0, 1].map(|at| match bounds.get(at) {
        Some((_, bound)) => format!("{bound:.1}"),
        None => "-".to_owned(),
    })
}

fn percent(loss: f64) -> String {
    match loss * 100.0 {
        percent if percent.abs() < 0.05 => "none".to_owned(),
        percent if percent.abs() >= 10.0 => format!("{percent:.0} %"),
        percent => format!("{percent:.1} %"),
    }
}

fn names(row: &EqualFailures) -> String {
    let names: Vec<&str> = row
        .failures
        .iter()
        .map(|failure| failure.name.as_str())
        .collect();
    shorten(&names).join(", ")
}
