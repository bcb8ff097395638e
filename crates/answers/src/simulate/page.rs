//! A simulated job as a page.

use pages::numbers::{count, microseconds, or_dash, short};
use pages::{Page, Section, Table, row};
use program::Transfer;

use super::{LaneShares, LinkLoad, SimulateReport};
use crate::head;

impl SimulateReport {
    /// The page, with so many of the busiest links.
    pub fn page(&self, links: usize) -> Page {
        let mut page = self.head();
        let remark = "the chain of events that ended last";
        self.causes(page.section("Where the time goes", remark));
        let section = page.section("Lanes", "what they did, on average");
        section.say(self.lanes.words());
        let shown = self.links.len().min(links);
        let all = self.links.len();
        let section = match all - shown {
            0 => page.section("Links", "the busiest first"),
            more => page
                .section("Links", "the busiest")
                .hint(format!("; --links {all} shows {more} more")),
        };
        section.table(loads(&self.links[..shown]));
        page
    }

    fn head(&self) -> Page {
        let how = match self.transfer {
            Transfer::Fifo => self.protocol.to_string(),
            Transfer::Direct | Transfer::Staged => self.transfer.to_string(),
            Transfer::Hierarchical => format!("{}, {}", self.transfer, self.protocol),
        };
        let mut page = Page::new(format!(
            "{} of {} by {} ({how}): {} on {}",
            self.collective,
            short(self.bytes),
            self.algorithm,
            count(self.ranks as usize, "rank"),
            count(self.hosts as usize, "host"),
        ));
        if let Some(profile) = &self.profile {
            page.field("nccl", head::version(profile));
        }
        page.field("time", format!("{} µs", microseconds(self.time_us)));
        if let (Some(algorithm), Some(bus)) = (self.algorithm_bandwidth, self.bus_bandwidth) {
            let (algorithm, bus) = (gbps(algorithm), gbps(bus));
            page.field(
                "speed",
                format!("{algorithm} GB/s algorithm, {bus} GB/s bus"),
            );
        }
        if let Some(predicted) = self.predicted_us {
            let share = 100.0 * (predicted / self.time_us - 1.0);
            let predicted = microseconds(predicted);
            let words = format!("NCCL's cost model predicts {predicted} µs ({share:+.0} %)");
            page.field("model", words);
        }
        let channels = count(self.channels.into(), "channel");
        let slots = format!("{channels}, FIFO slots of {} bytes", self.slot_bytes);
        page.field("channels", slots);
        page.field("network", &self.network);
        let (run, lanes, steps) = (self.simulated_lanes, self.lane_count, self.steps);
        let ran = match run == lanes {
            true => {
                let lanes = count(run as usize, "lane");
                format!("all {lanes}, {}", count(steps as usize, "step"))
            }
            false => format!(
                "{run} of {lanes} lanes, since the others do the same: {} of {steps} steps",
                self.simulated_steps
            ),
        };
        page.field("run", ran);
        page
    }

    fn causes(&self, section: &mut Section) {
        let mut causes: Vec<_> = self.causes.iter().filter(|it| it.time_us > 0.0).collect();
        causes.sort_by(|one, other| other.time_us.total_cmp(&one.time_us));
        let share = |time: f64| format!("{:.1} %", 100.0 * time / self.time_us);
        let mut table = Table::new([">µs", ">share", "cause"]);
        for it in causes {
            table.row(row![microseconds(it.time_us), share(it.time_us), it.words]);
        }
        section.table(table);
        if self.shared_us > 0.0005 * self.time_us {
            let (time, share) = (microseconds(self.shared_us), share(self.shared_us));
            section.say(format!(
                "{time} µs of this, {share}, because transfers shared links with others"
            ));
        }
    }
}

impl LaneShares {
    fn words(&self) -> String {
        let parts = [
            (self.busy, "in steps"),
            (self.data, "waiting for data"),
            (self.slot, "waiting for a free slot"),
            (self.signal, "waiting for a signal"),
            (self.idle, "before their first step or after their last"),
        ];
        let parts = parts.iter().filter(|(share, _)| *share >= 0.0005);
        let parts: Vec<String> = parts
            .map(|(share, words)| format!("{:.1} % {words}", 100.0 * share))
            .collect();
        parts.join(", ")
    }
}

fn loads(links: &[LinkLoad]) -> Table {
    let mut table = Table::new(["link", ">equal", ">GB/s", ">used", ">bytes"]);
    for link in links {
        table.row(row![
            link.name,
            format!("× {}", link.count),
            or_dash(link.gbps.map(gbps)),
            format!("{:.1} %", 100.0 * link.used),
            link.bytes,
        ]);
    }
    table
}

/// GB/s with three digits that count.
fn gbps(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value if value >= 1.0 => format!("{value:.2}"),
        value => format!("{value:.4}"),
    }
}
