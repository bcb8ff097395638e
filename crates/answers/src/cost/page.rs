//! Costs as a page.

use pages::numbers::{microseconds, percent, short};
use pages::{Page, Table, row};
use plan::CostTable;
use plan::cost::{Calls, WindowChoice};
use program::Collective;

use super::{CollectiveCosts, CostReport, SizeCosts};
use crate::assumptions;
use crate::head;
use crate::measured;

/// Calls of a group whose channels are shown.
const SHOWN_CALLS: usize = 4;

/// Peers of rank 0 that are shown.
const SHOWN_PEERS: usize = 12;

/// Marks a size at which the choice changes.
const CHANGE: &str = "▸";

/// Measurements where NCCL's model takes too few blocks. Source: NVIDIA/nccl issue 2305.
const FEW_BLOCKS: &str = "NCCL's model takes too few CTAs here: on GB200 and GB300 reduce-scatters of 2 to \
     4 MiB a rank were measured 1.3 to 2.4 times as fast with NCCL_SYM_KERNEL=ReduceScatter_LD and \
     NCCL_SYM_CTAS=64.";

impl CostReport {
    /// The page: the choice for each size, or the table of all algorithms.
    pub fn page(&self) -> Page {
        let mut page = head::of_job(&self.name, &self.job.plan, &self.profile);
        for costs in &self.collectives {
            match &self.table {
                Some(table) => entries(&mut page, table, costs.collective),
                None => self.collective(&mut page, costs),
            }
        }
        if let (None, Some((links, _))) = (&self.table, &self.job.measured) {
            page.sections.push(measured::page::section(links));
        }
        assumptions::add(&mut page, &self.assumptions);
        page
    }

    fn collective(&self, page: &mut Page, costs: &CollectiveCosts) {
        let name = costs.collective.name();
        match &costs.transfers {
            Some(_) => self.transfers(page, costs),
            None => choices(page, costs, title(self.calls.as_ref())),
        }
        if costs.sizes.iter().any(|size| size.window.is_some()) {
            let remark = "the kernels for symmetric memory, and what registering gains";
            let section = page.section(format!("{name} on windows"), remark);
            section.table(self.windows(costs));
            if self.takes_few_blocks(costs) {
                section.notice(FEW_BLOCKS);
            }
        }
        on_measured(page, costs);
        self.forest(page, costs);
    }

    /// Whether a reduce-scatter on Blackwell leaves most blocks unused for long messages.
    fn takes_few_blocks(&self, costs: &CollectiveCosts) -> bool {
        let table = &self.job.costs;
        let ranks = self.ranks.max(1);
        let long = |size: &&SizeCosts| (2 << 20..=4 << 20).contains(&(size.bytes / ranks));
        let windows = table.windows.as_ref();
        let chosen = windows.is_some_and(|it| it.blocks.is_some() || it.forced);
        let few = |size: &SizeCosts| {
            let window = size.window.as_ref();
            window.is_some_and(|it| it.time_us.is_some() && it.blocks < 16)
        };
        costs.collective == Collective::ReduceScatter
            && !chosen
            && table.job.min_cc >= 100
            && costs.sizes.iter().filter(long).any(few)
    }

    /// The choices where buffers are symmetric windows.
    fn windows(&self, costs: &CollectiveCosts) -> Table {
        let mut table = Table::new([
            ">size",
            "kernel",
            ">CTAs",
            ">time µs",
            ">bus GB/s",
            ">without µs",
            "gain",
        ]);
        let calls = self.calls.as_ref().map_or(1, |it| it.number);
        for size in &costs.sizes {
            let window = size.window.as_ref();
            let time = window.and_then(|it| it.time_us);
            let without = size.choice.as_ref().map(|it| it.time_us);
            let gain = time.zip(without).filter(|(time, _)| *time > 0.0);
            let bytes = size.bytes.saturating_mul(u64::from(calls));
            let bus = |it| self.job.costs.bus_bandwidth(costs.collective, bytes, it);
            table.row(row![
                short(size.bytes),
                window.map_or("none", WindowChoice::name),
                window.map_or_else(String::new, |it| it.blocks.to_string()),
                time.map_or_else(String::new, microseconds),
                bandwidth(time.and_then(bus)),
                without.map_or_else(String::new, microseconds),
                gain.map_or_else(String::new, |(time, without)| percent(without / time - 1.0)),
            ]);
        }
        table
    }

    /// The costs of the plan's trees, if it has any.
    fn forest(&self, page: &mut Page, costs: &CollectiveCosts) {
        let Some(forest) = &costs.forest else {
            return;
        };
        let times = costs.sizes.iter();
        let times = times.filter_map(|it| Some((it.bytes, it.choice.as_ref()?.time_us)));
        let times: Vec<(u64, f64)> = times.collect();
        let mut table = Table::new([">size", ">trees µs", ">NCCL µs"]);
        for (bytes, nccl) in &times {
            let own = microseconds(forest.time_us(*bytes));
            table.row(row![short(*bytes), own, microseconds(*nccl)]);
        }
        let faster = |(bytes, time): &&(u64, f64)| forest.time_us(*bytes) < *time;
        let reaches = match bounds::reach::nccl_bandwidth(&self.job.plan, costs.collective) {
            Some(nccl) => format!("{:.1} GB/s, NCCL's plan {nccl:.1}", forest.bandwidth),
            None => format!("{:.1} GB/s", forest.bandwidth),
        };
        let when = match times.iter().find(faster) {
            Some((bytes, _)) => format!("faster from {} on", short(*bytes)),
            None => "not faster at these sizes".to_owned(),
        };
        let title = format!("{} by trees", costs.collective);
        let section = page.section(title, "expected time beside NCCL's choice");
        section.table(table).say(format!(
            "Trees ({}) are {when}: for long messages they reach {reaches}. They are up to {} links high; a link is \
             priced as a step of a ring with Simple.",
            costs.collective.command_name(),
            forest.height
        ));
        section.hint("topo run --algorithm forest runs them.");
    }

    /// The transfers of which NCCL makes a collective.
    fn transfers(&self, page: &mut Page, costs: &CollectiveCosts) {
        let Some(transfers) = &costs.transfers else {
            return;
        };
        let mut table = Table::new([
            "",
            ">size",
            ">for a peer",
            "in the node",
            "to other nodes",
            ">time µs",
            ">alg GB/s",
        ]);
        let mut before = None;
        for size in &transfers.sizes {
            let now = Some((size.local, size.remote));
            let is_change = before.is_some() && before != now;
            before = now;
            let speed = size.time_us.filter(|time| *time > 0.0);
            table.row(row![
                if is_change { CHANGE } else { "" },
                short(size.bytes),
                short(size.pair_bytes),
                size.local.map_or_else(String::new, |it| it.to_string()),
                size.remote.map_or_else(String::new, |it| it.to_string()),
                size.time_us.map_or_else(String::new, microseconds),
                bandwidth(speed.map(|time| size.bytes as f64 / time / 1e3)),
            ]);
        }
        let mut text = format!(
            "Two ranks have {} of {} channels, on which each moves its part in chunks.",
            transfers.per_peer, transfers.channels
        );
        if costs.collective == Collective::AllToAll {
            let shown = transfers.order.iter().take(SHOWN_PEERS);
            let shown: Vec<String> = shown.map(u32::to_string).collect();
            let is_cut = transfers.order.len() > SHOWN_PEERS;
            let more = if is_cut { " …" } else { "" };
            text.push_str(&format!(" Rank 0 sends to {}{more}.", shown.join(" ")));
        }
        if let Some((ranks, channels)) = transfers.fewer_beyond {
            let each = self.ranks / u64::from(self.hosts.max(1));
            let hosts = u64::from(ranks) / each.max(1);
            text.push_str(&format!(
                " With more than {ranks} ranks ({hosts} such hosts) they have {channels}."
            ));
        }
        let remark = "what NCCL takes for transfers of this size; the time is an estimate by the rings' bandwidth";
        page.section(costs.collective.name(), remark)
            .table(table)
            .say(text);
    }
}

/// What the times are of.
fn title(calls: Option<&Calls>) -> String {
    let taken = "what NCCL takes for a message of this size";
    let Some(calls) = calls else {
        return taken.to_owned();
    };
    let (data_type, reduction) = (&calls.data_type, &calls.reduction);
    let of_type = format!(": {data_type}, {reduction}");
    if calls.number > 1 {
        let number = calls.number;
        return format!("what NCCL takes for {number} calls of this size in one group{of_type}");
    }
    let is_usual = (*data_type, *reduction) == (Calls::ONE.data_type, Calls::ONE.reduction);
    let registered = match calls.registration == Calls::ONE.registration {
        true => String::new(),
        false => format!(", buffers registered ({})", calls.registration),
    };
    let placed = if calls.in_place { ", in place" } else { "" };
    format!(
        "{taken}{registered}{placed}{}",
        if is_usual { "" } else { &of_type }
    )
}

fn choices(page: &mut Page, costs: &CollectiveCosts, title: String) {
    let section = page.section(costs.collective.name(), title);
    if !Collective::TUNED.contains(&costs.collective) {
        let none = "NCCL makes it of point-to-point transfers: there is nothing to choose";
        section.faint(none);
        return;
    }
    let mut table = Table::new([
        "",
        ">size",
        "algorithm",
        "protocol",
        ">channels",
        ">threads",
        ">time µs",
        ">alg GB/s",
        ">bus GB/s",
        "runner-up",
    ]);
    for size in &costs.sizes {
        let Some(choice) = &size.choice else {
            section.notice(size.refused.clone().unwrap_or_default());
            return;
        };
        let next = size.runner_up.map_or_else(String::new, |next| {
            let more = match choice.time_us > 0.0 {
                true => percent(next.time_us / choice.time_us - 1.0),
                false => String::new(),
            };
            format!("{} {} {more}", next.algorithm, next.protocol)
        });
        table.row(row![
            if size.changed { CHANGE } else { "" },
            short(size.bytes),
            choice.algorithm,
            choice.protocol,
            channels(choice.channels, &choice.spread),
            choice.threads,
            microseconds(choice.time_us),
            bandwidth(choice.algorithm_bandwidth_gbps),
            bandwidth(choice.bus_bandwidth_gbps),
            next,
        ]);
    }
    section.table(table);
}

/// The channels of one call by number, those of several by range.
fn channels(number: u32, spread: &[[u32; 2]]) -> String {
    if spread.is_empty() {
        return number.to_string();
    }
    let range = |[first, last]: &[u32; 2]| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    let ranges: Vec<String> = spread.iter().take(SHOWN_CALLS).map(range).collect();
    let more = if spread.len() > SHOWN_CALLS {
        " …"
    } else {
        ""
    };
    format!("{}{more}", ranges.join(" "))
}

/// The times on measured links, if there are any.
fn on_measured(page: &mut Page, costs: &CollectiveCosts) {
    let mut table = Table::new([
        ">size",
        "NCCL takes",
        ">by NCCL's links µs",
        ">measured links µs",
        "fastest there",
        ">µs",
    ]);
    for size in &costs.sizes {
        let (Some(times), Some(choice)) = (size.measured, &size.choice) else {
            continue;
        };
        let fastest = times.fastest;
        table.row(row![
            short(size.bytes),
            format!("{} {}", choice.algorithm, choice.protocol),
            microseconds(choice.time_us),
            microseconds(times.time_us),
            format!("{} {}", fastest.algorithm, fastest.protocol),
            microseconds(fastest.time_us),
        ]);
    }
    if !table.is_empty() {
        let title = format!("{} on the measured links", costs.collective);
        let remark = "time of what NCCL takes, and of the fastest that it compares";
        page.section(title, remark).table(table);
    }
}

fn bandwidth(gbps: Option<f64>) -> String {
    gbps.map_or_else(String::new, |it| format!("{it:.2}"))
}

/// Bandwidth and latency of every algorithm and protocol.
fn entries(page: &mut Page, costs: &CostTable, collective: Collective) {
    let remark = "message bytes per time without latency, and the time of an empty message";
    let section = page.section(collective.name(), remark);
    let mut table = Table::new([
        "algorithm",
        "protocol",
        ">GB/s",
        ">latency µs",
        ">threads",
        "remark",
    ]);
    let entries = costs.entries.iter();
    for entry in entries.filter(|entry| entry.collective == collective) {
        let (gbps, remark) = match entry.off {
            None => (format!("{:.2}", entry.bandwidth), ""),
            Some(off) => ("-".to_owned(), off.reason()),
        };
        table.row(row![
            entry.algorithm,
            entry.protocol,
            gbps,
            microseconds(f64::from(entry.latency)),
            costs.threads(entry.algorithm).most[entry.protocol as usize],
            remark,
        ]);
    }
    match table.is_empty() {
        true => section.faint("no algorithm to choose"),
        false => section.table(table),
    };
}
