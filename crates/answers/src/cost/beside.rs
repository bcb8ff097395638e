//! The same messages on several jobs, side by side.

use pages::numbers::{microseconds, or_dash, short};
use pages::{Page, Table, row};
use serde::Serialize;

use super::CostReport;
use crate::JsonSchema;
use crate::head;
use crate::report::Report;

/// The same messages on several jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CostsBeside {
    /// The jobs, in the order given; all have the same collectives and sizes.
    pub jobs: Vec<CostReport>,
}

impl Report for CostsBeside {
    const FORMAT: &'static str = "topo-cost-beside";
    const VERSION: u32 = 1;

    fn as_page(&self) -> Option<Page> {
        Some(self.page())
    }
}

impl CostsBeside {
    /// A table of each collective: a row for each size and job.
    pub fn page(&self) -> Page {
        let mut page = head::beside(self.jobs.iter().map(|it| (&*it.name, &it.job.plan)));
        let Some(first) = self.jobs.first() else {
            return page;
        };
        for (at, costs) in first.collectives.iter().enumerate() {
            let headers = [
                ">size",
                "job",
                "NCCL takes",
                ">time µs",
                ">alg GB/s",
                ">bus GB/s",
            ];
            let mut table = Table::new(headers);
            for (row, size) in costs.sizes.iter().enumerate() {
                for job in &self.jobs {
                    let own = job.collectives.get(at).and_then(|it| it.sizes.get(row));
                    let choice = own.and_then(|it| it.choice.as_ref());
                    let gbps = |it: Option<f64>| or_dash(it.map(|it| format!("{it:.2}")));
                    table.row(row![
                        short(size.bytes),
                        job.name,
                        or_dash(choice.map(|it| format!("{} {}", it.algorithm, it.protocol))),
                        or_dash(choice.map(|it| microseconds(it.time_us))),
                        gbps(choice.and_then(|it| it.algorithm_bandwidth_gbps)),
                        gbps(choice.and_then(|it| it.bus_bandwidth_gbps)),
                    ]);
                }
            }
            let remark = "predicted by NCCL's cost model";
            page.section(costs.collective.name(), remark).table(table);
        }
        page
    }
}
