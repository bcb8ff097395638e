//! The same step on several clusters, side by side.

use pages::numbers::{count, milliseconds as ms, or_dash};
use pages::{Page, Table, row};
use serde::Serialize;

use super::StepReport;
use crate::JsonSchema;
use crate::head;
use crate::report::Report;

/// The same step on several clusters.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SideBySide {
    /// The clusters, in the order given.
    pub clusters: Vec<ClusterStep>,
    /// The cost profile.
    pub profile: String,
}

impl Report for SideBySide {
    const FORMAT: &'static str = "topo-step-beside";
    const VERSION: u32 = 1;

    fn as_page(&self) -> Option<Page> {
        Some(self.page())
    }
}

/// The step on a cluster.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ClusterStep {
    /// Names of its machines.
    pub name: String,
    /// Hosts.
    pub hosts: u32,
    /// Ranks.
    pub ranks: u32,
    /// The step, µs.
    pub step_us: f64,
    /// Communication that computation waits for, µs.
    pub exposed_us: f64,
    /// Its share of the step.
    pub exposed_share: f64,
    /// The largest part of the step: `computation`, `bubble`, or the group whose communication is
    /// exposed longest.
    pub bound_by: String,
    /// The share of the step of that part.
    pub bound_share: f64,
    /// The price of all hosts, per hour; null if no price was given.
    pub price_per_hour: Option<f64>,
    /// The price of a thousand steps.
    pub price_per_thousand_steps: Option<f64>,
}

/// Microseconds of an hour by the thousand steps.
const THOUSAND_STEPS_US: f64 = 3600e6 / 1000.0;

impl ClusterStep {
    fn of(report: &StepReport, price_of_host: Option<f64>) -> Self {
        let own = [
            ("computation", report.compute_us),
            ("bubble", report.bubble_us),
        ];
        let groups = report.groups.iter();
        let groups = groups.map(|group| (group.name.as_str(), group.exposed_us));
        let parts = own.into_iter().chain(groups);
        let largest = parts.max_by(|a, b| a.1.total_cmp(&b.1));
        let (bound_by, bound_us) = largest.unwrap_or(("computation", 0.0));
        let share = |us: f64| match report.step_us > 0.0 {
            true => us / report.step_us,
            false => 0.0,
        };
        let price = price_of_host.map(|it| it * f64::from(report.hosts));
        Self {
            name: report.name.clone(),
            hosts: report.hosts,
            ranks: report.ranks,
            step_us: report.step_us,
            exposed_us: report.exposed_us,
            exposed_share: share(report.exposed_us),
            bound_by: bound_by.to_owned(),
            bound_share: share(bound_us),
            price_per_hour: price,
            price_per_thousand_steps: price.map(|it| it * report.step_us / THOUSAND_STEPS_US),
        }
    }
}

impl SideBySide {
    /// The steps, each with the price of a host per hour if it is known.
    pub fn of(steps: &[(StepReport, Option<f64>)]) -> Self {
        let clusters = steps.iter();
        Self {
            clusters: clusters
                .map(|(report, price)| ClusterStep::of(report, *price))
                .collect(),
            profile: steps
                .first()
                .map_or(String::new(), |it| it.0.profile.clone()),
        }
    }

    /// The table, as a page.
    pub fn page(&self) -> Page {
        let mut page = Page::new("the same step on each cluster");
        page.field("nccl", head::version(&self.profile));
        let mut table = Table::new([
            "cluster",
            "hosts",
            ">step ms",
            ">exposed ms",
            ">of step",
            "largest part",
            ">of step",
            ">per hour",
            ">1000 steps",
        ]);
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        let price = |it: Option<f64>| or_dash(it.map(|it| format!("{it:.2}")));
        for it in &self.clusters {
            table.row(row![
                it.name,
                format!(
                    "{}, {}",
                    count(it.hosts as usize, "host"),
                    count(it.ranks as usize, "rank")
                ),
                ms(it.step_us),
                ms(it.exposed_us),
                percent(it.exposed_share),
                it.bound_by,
                percent(it.bound_share),
                price(it.price_per_hour),
                price(it.price_per_thousand_steps),
            ]);
        }
        let remark =
            "predicted by NCCL's cost model; computation is the workload's, on each cluster alike";
        page.section("Side by side", remark).table(table);
        page
    }
}
