//! Expectations as a page.

use pages::numbers::{count, or_dash, short};
use pages::{Page, Table, row};

use super::{CollectiveExpectations, ExpectReport};
use crate::head;

impl ExpectReport {
    /// The page.
    pub fn page(&self) -> Page {
        let mut page = head::of_job(&self.name, &self.plan, &self.profile);
        for collective in &self.collectives {
            let remark = "bus bandwidth, GB/s, as nccl-tests prints it";
            let section = page.section(collective.collective.name(), remark);
            section.table(sizes(collective));
            for (why, bytes) in collective.unknown() {
                section.item(format!("unknown at {}: {why}", bytes.join(", ")));
            }
        }
        if self
            .collectives
            .iter()
            .any(|it| it.sizes.iter().any(|it| it.unknown.is_some()))
        {
            page.section("", "").say(
                "What would make it known: published measurements of healthy machines of this kind. What NCCL \
                 itself believes is no expectation",
            ).hint(": topo cost.");
        }
        if let Some(start) = &self.start {
            let remark = "seconds until a communicator is ready, `Init timings` in NCCL's log";
            page.section("Start", remark).say(format!(
                "{} s for the first communicator of a process, {} s for others, which load no kernels. {} of jobs of \
                 this size are published.",
                range(start.seconds),
                range(start.further_seconds),
                count(start.like.len(), "start")
            ));
        }
        let mut table = Table::new(["run", "source"]);
        let starts = self.start.iter().flat_map(|it| &it.like);
        for it in self.sources.iter().chain(starts) {
            table.row(row![it.name, it.source]);
        }
        if !table.is_empty() {
            page.section("Published runs", "").table(table);
        }
        page
    }
}

/// `0.7 to 1.0`, or one number.
pub(super) fn range([least, most]: [f64; 2]) -> String {
    let [least, most] = [least, most].map(|it| format!("{it:.1}"));
    match least == most {
        true => least,
        false => format!("{least} to {most}"),
    }
}

impl CollectiveExpectations {
    /// The reasons why nothing is expected, each with its sizes.
    pub(super) fn unknown(&self) -> Vec<(&str, Vec<String>)> {
        let mut found: Vec<(&str, Vec<String>)> = Vec::new();
        for size in &self.sizes {
            let Some(why) = size.unknown.as_deref() else {
                continue;
            };
            match found.iter_mut().find(|it| it.0 == why) {
                Some(known) => known.1.push(short(size.bytes)),
                None => found.push((why, vec![short(size.bytes)])),
            }
        }
        found
    }
}

fn sizes(collective: &CollectiveExpectations) -> Table {
    let mut table = Table::new([
        ">size",
        ">expected",
        ">published",
        ">floor",
        "NCCL takes",
        "like",
    ]);
    let gbps = |value: f64| format!("{value:.1}");
    for size in &collective.sizes {
        let like = size
            .like
            .split_first()
            .map(|(first, more)| match more.len() {
                0 => (*first).to_owned(),
                more => format!("{first} and {more} more"),
            });
        table.row(row![
            short(size.bytes),
            size.expected_gbps
                .map_or_else(|| "unknown".to_owned(), gbps),
            or_dash(size.spread_gbps.map(range)),
            or_dash(size.floor_gbps.map(gbps)),
            format!("{} {}", size.algorithm, size.protocol),
            or_dash(like),
        ]);
    }
    table
}
