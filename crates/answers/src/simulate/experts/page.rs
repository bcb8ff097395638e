//! Simulated exchanges of tokens as a page.

use pages::numbers::{count, microseconds, or_dash};
use pages::{Page, Table, row};

use super::ExpertsReport;
use crate::head;

/// Most links of an exchange that are shown.
const MOST_LINKS: usize = 2;

impl ExpertsReport {
    /// The page, with so many of the busiest links of each exchange, but at most two.
    pub fn page(&self, links: usize) -> Page {
        let mut page = Page::new(format!(
            "Tokens to experts: {} on {}",
            count(self.ranks as usize, "rank"),
            count(self.hosts as usize, "host")
        ));
        page.field("nccl", head::version(&self.profile));
        let megabytes = |bytes: u64| format!("{:.1}", bytes as f64 / 1e6);
        let mut exchanges = Table::new([
            "exchange",
            "schedule",
            ">time µs",
            ">network MB",
            ">network GB/s",
            ">NVLink MB",
        ]);
        let mut loads = Table::new(["exchange", "schedule", "link", ">links", ">GB/s", ">used"]);
        for one in &self.exchanges {
            exchanges.row(row![
                one.exchange,
                one.schedule,
                microseconds(one.time_us),
                megabytes(one.remote_bytes),
                or_dash(one.remote_gbps.map(|it| format!("{it:.1}"))),
                megabytes(one.local_bytes),
            ]);
            for link in one.links.iter().take(links.min(MOST_LINKS)) {
                loads.row(row![
                    one.exchange,
                    one.schedule,
                    link.name,
                    link.count,
                    or_dash(link.gbps.map(|it| format!("{it:.1}"))),
                    format!("{:.0} %", 100.0 * link.used),
                ]);
            }
        }
        let remark = "of the rank that moves most; what a rank passes on for others is not counted";
        page.section("Exchanges", remark).table(exchanges);
        page.section("Links", "the busiest of each").table(loads);
        page
    }
}
