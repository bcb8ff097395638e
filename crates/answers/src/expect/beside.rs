//! Expectations of several jobs, side by side.

use pages::numbers::{or_dash, short};
use pages::{Page, Table, row};
use serde::Serialize;

use super::ExpectReport;
use super::page::range;
use crate::JsonSchema;
use crate::head;
use crate::report::Report;

/// Expectations of several jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ExpectationsBeside {
    /// The jobs, in the order given; all have the same collectives and sizes.
    pub jobs: Vec<ExpectReport>,
}

impl Report for ExpectationsBeside {
    const FORMAT: &'static str = "topo-expect-beside";
    const VERSION: u32 = 1;

    fn as_page(&self) -> Option<Page> {
        Some(self.page())
    }
}

impl ExpectationsBeside {
    /// A table of each collective: a row for each size and job.
    pub fn page(&self) -> Page {
        let mut page = head::beside(self.jobs.iter().map(|it| (&*it.name, &it.plan)));
        let Some(first) = self.jobs.first() else {
            return page;
        };
        for (at, expected) in first.collectives.iter().enumerate() {
            let mut table = Table::new([">size", "job", ">expected", ">published", ">floor"]);
            for size in &expected.sizes {
                for job in &self.jobs {
                    let own = job.collectives.get(at);
                    let own = own.and_then(|it| it.sizes.iter().find(|it| it.bytes == size.bytes));
                    let gbps = |it: Option<f64>| it.map(|it| format!("{it:.1}"));
                    let known = own.and_then(|it| it.expected_gbps);
                    table.row(row![
                        short(size.bytes),
                        job.name,
                        gbps(known).unwrap_or_else(|| "unknown".to_owned()),
                        or_dash(own.and_then(|it| it.spread_gbps).map(range)),
                        or_dash(gbps(own.and_then(|it| it.floor_gbps))),
                    ]);
                }
            }
            let remark = "bus bandwidth, GB/s, as nccl-tests prints it";
            let section = page.section(expected.collective.name(), remark);
            section.table(table);
            for job in &self.jobs {
                for (why, bytes) in job.collectives.get(at).iter().flat_map(|it| it.unknown()) {
                    let sizes = bytes.join(", ");
                    section.item(format!("{}: unknown at {sizes}: {why}", job.name));
                }
            }
        }
        page
    }
}
