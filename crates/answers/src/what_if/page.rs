//! The rest of a job after single failures, as a page.

use pages::numbers::{count, gbps, microseconds, short};
use pages::{Page, Table, row};

use super::{FailureRow, JobLeft, WhatIfReport};
use crate::head;
use crate::names::shorten;

impl WhatIfReport {
    /// The page. `time_limit`: seconds.
    pub fn page(&self, time_limit: Option<u64>) -> Page {
        let mut page = Page::new(&self.name);
        let hosts = count(self.hosts as usize, "host");
        let ranks = count(self.whole.ranks as usize, "rank");
        page.field("job", format!("{hosts}, {ranks}"));
        if let Some(profile) = &self.profile {
            page.field("nccl", head::version(profile));
        }
        page.field("whole", self.whole.words());
        if self.whole.bounds.is_some() {
            let [gather, reduce] = most(Some(&self.whole));
            let line =
                format!("all-gather {gather} GB/s, all-reduce {reduce} GB/s by any schedule");
            page.field("at most", line);
        }
        let failures: usize = self.failures.iter().map(|row| row.names.len()).sum();
        let remark = format!(
            "worst first; loss: how much slower an all-reduce of this size gets{} (negative: faster)",
            match self.hosts {
                ..=1 => "",
                _ => " when the device fails on one host",
            }
        );
        let section = page.section(count(failures, "single failure"), remark);
        section.table(self.table());
        if let (Some(seconds), Some(_)) = (time_limit, &self.left_out) {
            let kinds = self.kinds_left_out.iter();
            let kinds: Vec<String> = kinds.map(|(kind, all)| format!("{kind}: {all}")).collect();
            let kinds = kinds.join(", ");
            section
                .lines("\n")
                .notice(format!("Not looked at within {seconds} s: {kinds}"))
                .hint("(--time-limit)");
        }
        for row in &self.failures {
            if let Some(problem) = &row.cannot_be_planned {
                let names = row.short_names();
                section
                    .lines("\n")
                    .notice(format!("Without {names} NCCL cannot start: {problem}"));
            }
        }
        if let Some(edit) = self.failures.first().and_then(|row| row.edits.first()) {
            let of = match edit.of.contains(' ') {
                true => format!("'{}'", edit.of),
                false => edit.of.clone(),
            };
            let kind = edit.kind;
            section.lines("\n").faint("").hint(format!(
                "The first row again, in full: topo plan … --{kind} {of}"
            ));
        }
        page
    }

    fn table(&self) -> Table {
        let sizes = || self.whole.all_reduce.iter();
        let losses: Vec<String> = sizes()
            .map(|it| format!(">loss at {}", short(it.bytes)))
            .collect();
        let mut headers = vec!["fails", "which", ">ranks", ">channels", ">rings"];
        headers.extend(losses.iter().map(String::as_str));
        if self.whole.bounds.is_some() {
            headers.extend([">all-gather ≤", ">all-reduce ≤"]);
        }
        let mut table = Table::new(headers);
        for row in &self.failures {
            let kind = match row.links {
                Some(1) | None => row.kind.to_owned(),
                Some(of) => format!("one of {of} {}s", row.kind),
            };
            let mut cells = vec![kind, row.short_names()];
            match &row.left {
                Some(left) => {
                    cells.extend(row![left.ranks, left.channels, left.rings()]);
                    let losses = left.all_reduce.iter();
                    cells.extend(losses.map(|it| it.loss.map_or(NO_WAY.to_owned(), percent)));
                }
                None => {
                    cells.extend(row!["-", "-", "cannot start"]);
                    cells.extend(sizes().map(|_| "all".to_owned()));
                }
            }
            if self.whole.bounds.is_some() {
                cells.extend(most(row.left.as_ref()));
            }
            table.row(cells);
        }
        table
    }
}

/// No algorithm is left.
const NO_WAY: &str = "no way";

impl JobLeft {
    fn words(&self) -> String {
        let times = self.all_reduce.iter().map(|it| {
            let time = it.time_us.map_or(NO_WAY.to_owned(), |time| {
                format!("{} µs", microseconds(f64::from(time)))
            });
            format!("{} in {time}", short(it.bytes))
        });
        format!(
            "{}, rings {}; all-reduce of {}",
            count(self.channels as usize, "channel"),
            self.rings(),
            times.collect::<Vec<_>>().join(", ")
        )
    }

    fn rings(&self) -> String {
        format!(
            "{} × {} GB/s",
            self.ring_channels,
            gbps(self.ring_channel_gbps)
        )
    }
}

impl FailureRow {
    fn short_names(&self) -> String {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        shorten(&names).join(", ")
    }
}

/// The most that any schedule of each of two operations reaches, GB/s.
fn most(left: Option<&JobLeft>) -> [String; 2] {
    let bounds = left.and_then(|it| it.bounds.as_ref());
    [0, 1].map(|at| match bounds.and_then(|all| all.get(at)) {
        Some(it) => format!("{:.1}", it.bound_gbps),
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
