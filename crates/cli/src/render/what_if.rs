//! What single failures leave, as a table.

use crate::edits::option;
use plan::certificate::Operation;
use planner::what_if::{EqualFailures, JobFigures};
use topology::edit::Failure;

use super::table::Columns;
use super::{Look, count, gbps, group, microseconds, ranges, trim_lines, version, wrap};
use crate::sizes::short;
use crate::what_if::report::WhatIfReport;

pub fn page(report: &WhatIfReport, look: Look) -> String {
    let job = &report.job;
    let mut text = format!("{}\n", look.heading(&job.name()));
    text.push_str(&look.field(
        "job",
        &format!(
            "{}, {}",
            count(job.request().hosts as usize, "host"),
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
        if job.request().hosts > 1 {
            " when the device fails on one host"
        } else {
            ""
        }
    );
    text.push_str(&look.title(&count(failures, "single failure"), &remark));
    text.push_str(&table(report, look));
    if let (Some(seconds), false) = (report.time_limit, report.left_out.is_empty()) {
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

fn whole(report: &WhatIfReport) -> String {
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

fn table(report: &WhatIfReport, look: Look) -> String {
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

/// Names that differ in one number only are one: `GPU0-7:NVSwitch`.
pub fn shorten(names: &[&str]) -> Vec<String> {
    let mut left: Vec<&str> = names.to_vec();
    let mut short = Vec::new();
    while let Some(&first) = left.first() {
        let mut best: Option<(&str, &str, Vec<i32>)> = None;
        for (front, back) in numbers(first) {
            let alike: Vec<i32> = left
                .iter()
                .filter_map(|name| between(name, front, back))
                .collect();
            if best
                .as_ref()
                .is_none_or(|(_, _, most)| alike.len() > most.len())
            {
                best = Some((front, back, alike));
            }
        }
        match best {
            Some((front, back, alike)) if alike.len() > 1 => {
                left.retain(|name| between(name, front, back).is_none());
                short.push(format!("{front}{}{back}", ranges(&alike, ",")));
            }
            _ => {
                left.remove(0);
                short.push(first.to_owned());
            }
        }
    }
    short
}

/// The text before and after each decimal number of a name. Bus ids have none.
fn numbers(name: &str) -> Vec<(&str, &str)> {
    if name.split('/').any(topology::BusId::is_well_formed) {
        return Vec::new();
    }
    let is_digit = |at: usize| name.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let starts = (0..name.len()).filter(|at| is_digit(*at) && (*at == 0 || !is_digit(at - 1)));
    starts
        .map(|start| {
            let end = (start..name.len())
                .find(|at| !is_digit(*at))
                .unwrap_or(name.len());
            (&name[..start], &name[end..])
        })
        .collect()
}

/// The number between two texts, if that is all there is and is written as numbers are.
fn between(name: &str, front: &str, back: &str) -> Option<i32> {
    let digits = name.strip_prefix(front)?.strip_suffix(back)?;
    let number: i32 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_in_a_number_are_one() {
        for (names, short) in [
            (&["GPU0", "GPU1", "GPU2", "GPU5"][..], "GPU0-2,5"),
            (&["mlx5_0", "mlx5_1", "mlx5_10"], "mlx5_0,1,10"),
            (
                &["GPU0:NVSwitch", "GPU1:NVSwitch", "GPU2:NVSwitch"],
                "GPU0-2:NVSwitch",
            ),
            (
                &["GPU0:GPU1", "GPU0:GPU3", "GPU2:GPU3"],
                "GPU0:GPU1,3 | GPU2:GPU3",
            ),
            (
                &["0000:15:01.0", "0000:25:01.0"],
                "0000:15:01.0 | 0000:25:01.0",
            ),
            (&["NVSwitch"], "NVSwitch"),
            (&["mlx5_00", "mlx5_1"], "mlx5_00 | mlx5_1"),
        ] {
            assert_eq!(shorten(names).join(" | "), short);
        }
    }
}
