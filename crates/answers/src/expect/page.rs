//! Expectations as a page.

use pages::numbers::{count, or_dash, short};
use pages::{Page, Table, row};

use super::{CollectiveExpectations, ExpectReport};
use crate::head;

/// Marks a size for which no run of this kind is published.
const GUESS: &str = "?";

impl ExpectReport {
    /// The page.
    pub fn page(&self) -> Page {
        let mut page = head::of_job(&self.name, &self.plan, &self.profile);
        for collective in &self.collectives {
            let remark = "bus bandwidth, GB/s, as nccl-tests prints it";
            let section = page.section(collective.collective.name(), remark);
            section.table(sizes(collective));
        }
        let mut all = self.collectives.iter().flat_map(|it| &it.sizes);
        if all.any(|it| !it.alike) {
            page.section("", "").say(format!(
                "{GUESS} no healthy run of such a machine and size is published: by the one that is most like it. \
                 Below the sizes of published runs there is no expectation."
            ));
        }
        if let Some(pairs) = &self.pairs {
            let mut table = Table::new(["path", ">GB/s", ">pairs"]);
            for (kind, gbps, count) in pairs.kinds() {
                table.row(row![kind, format!("{gbps:.1}"), count]);
            }
            let remark =
                "GB/s from a GPU to another on which NCCL counts, the least for nvbandwidth";
            page.section("Pairs", remark).table(table);
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
fn range([least, most]: [f64; 2]) -> String {
    let [least, most] = [least, most].map(|it| format!("{it:.1}"));
    match least == most {
        true => least,
        false => format!("{least} to {most}"),
    }
}

fn sizes(collective: &CollectiveExpectations) -> Table {
    let mut table = Table::new([
        ">size",
        ">predicted",
        ">expected",
        ">floor",
        "",
        "NCCL takes",
        "like",
    ]);
    let gbps = |value: Option<f64>| or_dash(value.map(|it| format!("{it:.1}")));
    for size in &collective.sizes {
        table.row(row![
            short(size.bytes),
            gbps(size.predicted_gbps),
            gbps(size.expected_gbps),
            gbps(size.floor_gbps),
            if size.alike { "" } else { GUESS },
            format!("{} {}", size.algorithm, size.protocol),
            or_dash(size.like),
        ]);
    }
    table
}
