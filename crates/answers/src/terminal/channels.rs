//! The channels of a graph: which GPUs in which order, through which NICs.

use plan::{GpuGroup, Graph, GraphChannel, GraphKind, Pattern, PlannedMachine};

use pages::numbers::{count, group, ranges};
use pages::{Page, Section, Table};

use super::{names, words};

/// How the GPUs of several hosts are to be read.
const HOSTS: &str =
    "host0-2: 0 1 means GPU0 and GPU1 of host 0, then those of host 1, then those of host 2";

/// Adds a section for every graph of a group that has channels.
pub fn all(page: &mut Page, machine: &PlannedMachine, group: &GpuGroup) {
    let found = group.graphs.iter();
    for graph in found.filter(|graph| !graph.channels.is_empty()) {
        let remark = words::pattern(graph.pattern);
        table(page.section(title(graph.kind), remark), machine, graph);
    }
    if machine.hosts > 1 {
        page.section("", "").lines("\n").faint(HOSTS);
    }
}

const fn title(kind: GraphKind) -> &'static str {
    match kind {
        GraphKind::Ring => "Rings",
        GraphKind::Tree => "Trees",
        GraphKind::CollnetChain => "CollNet chains",
        GraphKind::Nvls => "NVLS",
        GraphKind::CollnetDirect => "CollNet direct",
    }
}

fn table(section: &mut Section, machine: &PlannedMachine, graph: &Graph) {
    let nets = graph.channels.iter().any(|channel| channel.nets.is_some());
    let heads = matches!(graph.pattern, Pattern::Nvls | Pattern::CollnetDirect);
    // Of an NVLink domain, a row for each head would fill pages.
    let merged = heads && machine.hosts > 1;
    let order = match (heads, merged) {
        (true, true) => "head GPUs, one per channel",
        (true, false) => "head GPU",
        (false, _) => "GPUs in order",
    };
    let mut headers = vec!["channels", order];
    if nets {
        headers.extend(["enters", "leaves"]);
    }
    let mut table = Table::new(headers);
    let rows = match merged {
        true => head_rows(graph),
        false => group(graph.channels.iter().map(ranks_and_nets(heads)).zip(0..)),
    };
    for ((gpus, ports), channels) in &rows {
        let mut row = vec![ranges(channels, " "), names::order(machine, gpus)];
        if nets {
            row.extend(ports.unwrap_or([-1; 2]).map(|port| match port {
                -1 => "-".to_owned(),
                _ => names::net_name(machine, port),
            }));
        }
        table.row(row);
    }
    section.table(table);
    if rows.len() == 1 && graph.channels.len() > 1 && !merged {
        let channels = count(graph.channels.len(), "channel");
        section.faint(format!("all {channels} are alike"));
    }
}

/// GPUs of a channel, and the ports where it enters and leaves.
type Row = (Vec<i32>, Option<[i64; 2]>);

fn ranks_and_nets(heads: bool) -> impl Fn(&GraphChannel) -> Row {
    move |channel| {
        let shown = if heads { 1 } else { channel.ranks.len() };
        let ranks = channel.ranks.iter().take(shown);
        (ranks.copied().collect(), channel.nets)
    }
}

/// The heads of channels in a row that use the same ports (or none), one head per channel.
fn head_rows(graph: &Graph) -> Vec<(Row, Vec<i32>)> {
    let mut rows: Vec<(Row, Vec<i32>)> = Vec::new();
    for (channel, number) in graph.channels.iter().zip(0..) {
        let (head, ports) = ranks_and_nets(true)(channel);
        match rows.last_mut() {
            Some(((heads, known), channels)) if *known == ports => {
                heads.extend(head);
                channels.push(number);
            }
            _ => rows.push(((head, ports), vec![number])),
        }
    }
    rows
}
