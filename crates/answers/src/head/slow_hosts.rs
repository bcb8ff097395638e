//! The channels that a job uses, and the slow hosts that decide them.

use plan::{ChannelSpeed, GraphKind, HostRange, Plan, PlannedMachine, SlowGraph, SlowHosts};

use pages::numbers::{gbps, group};
use pages::{Field, Table};

use super::{hosts, hosts_in_words, machines};
use crate::names::few;

/// Most groups of slow hosts that are described.
const NAMED: usize = 8;

/// The graphs that at least one machine of the job has.
fn kinds(plan: &Plan) -> impl Iterator<Item = GraphKind> + '_ {
    let groups = || plan.machines.iter().flat_map(|machine| &machine.groups);
    let all = GraphKind::IN_SEARCH_ORDER.into_iter();
    all.filter(move |kind| groups().any(|group| group.graph(*kind).is_some()))
}

/// The channels of a graph that all hosts of the job use.
fn used(plan: &Plan, kind: GraphKind) -> ChannelSpeed {
    let graph = plan.common.as_ref().and_then(|common| common.graph(kind));
    graph.map_or(ChannelSpeed::default(), |graph| {
        ChannelSpeed::new(
            graph.channels,
            graph.bw_intra,
            graph.bw_inter,
            leaves_host(plan),
        )
    })
}

/// Whether channels go through the network.
fn leaves_host(plan: &Plan) -> bool {
    let mut groups = plan.machines.iter().flat_map(|machine| &machine.groups);
    groups.any(|group| group.inter)
}

/// Whether each group of GPUs found the channels that the job uses.
fn is_uniform(plan: &Plan) -> bool {
    let groups = || plan.machines.iter().flat_map(|machine| &machine.groups);
    kinds(plan).all(|kind| groups().all(|group| group.channel_speed(kind) == used(plan, kind)))
}

/// `8x48`: channels, and GB/s of each.
fn speed(speed: ChannelSpeed) -> String {
    match speed.channels {
        0 => "none".to_owned(),
        channels => format!("{channels}x{}", gbps(speed.bandwidth_gbps)),
    }
}

/// The lines of a page's head: what the job uses, and each slow host. Empty if all parts of the job
/// found what it uses.
pub fn fields(plan: &Plan) -> Vec<Field> {
    let slow = plan.slow_hosts();
    let why = match slow.is_empty() {
        true if is_uniform(plan) => return Vec::new(),
        true => "the least that any group of its GPUs found",
        false => "a job is as fast as its slowest host",
    };
    let all: Vec<String> = kinds(plan)
        .map(|kind| format!("{kind} {}", speed(used(plan, kind))))
        .collect();
    let uses = format!("{} (channels x GB/s of each): {why}", all.join(", "));
    let mut fields = vec![Field::new("uses", uses)];
    let groups = group(slow.iter().map(|it| (&it.graphs, it)));
    let mut name = "slowest";
    for (graphs, hosts) in groups.iter().take(NAMED) {
        fields.push(Field::new(name, sentence(hosts, graphs)));
        name = "";
    }
    if groups.len() > NAMED {
        let rest = groups[NAMED..].iter().flat_map(|(_, hosts)| hosts);
        let rest: Vec<HostRange> = rest.flat_map(|it| it.hosts.clone()).collect();
        fields.push(Field::new("", format!("and {}", hosts_in_words(&rest))));
    }
    fields
}

/// `host 1 (node5): ring 8x24 instead of 8x48`.
fn sentence(slow: &[&SlowHosts], graphs: &[SlowGraph]) -> String {
    let graphs = graphs.iter().map(|it| {
        let (found, fastest) = (speed(it.found), speed(it.fastest));
        format!("{} {found} instead of {fastest}", it.graph)
    });
    let graphs: Vec<String> = graphs.collect();
    let hosts: Vec<HostRange> = slow.iter().flat_map(|it| it.hosts.clone()).collect();
    let machines = few(slow.iter().map(|it| it.machine.as_str()), ", ");
    let hosts = hosts_in_words(&hosts);
    format!("{hosts} ({machines}): {}", graphs.join(", "))
}

/// ` slowest=host1:node5,host3:node7` for scripts; empty if no host is slow.
pub fn quiet(plan: &Plan) -> String {
    let slow = plan.slow_hosts();
    let all: Vec<String> = slow
        .iter()
        .map(|slow| {
            format!(
                "host{}:{}",
                hosts(&slow.hosts).replace(',', "+"),
                slow.machine
            )
        })
        .collect();
    match all.is_empty() {
        true => String::new(),
        false => format!(" slowest={}", all.join(",")),
    }
}

/// The machines of a job with the channels that each found, equal ones in one row.
pub fn table(plan: &Plan) -> Table {
    let kinds: Vec<GraphKind> = kinds(plan).collect();
    let mut headers = vec!["host", "name"];
    headers.extend(kinds.iter().map(|kind| kind.name()));
    headers.push("machine");
    let mut table = Table::new(headers);
    let cells = |machine: &PlannedMachine| -> Vec<String> {
        let speeds = kinds.iter().map(|kind| speed(machine.channel_speed(*kind)));
        speeds.chain([machine.summary.clone()]).collect()
    };
    for (cells, members) in group(plan.machines.iter().map(cells).zip(0..)) {
        let (hosts, name) = machines(plan, &members);
        table.row([vec![super::hosts(&hosts), name], cells].concat());
    }
    let mut last = vec!["job".to_owned(), String::new()];
    last.extend(kinds.iter().map(|kind| speed(used(plan, *kind))));
    last.push(String::new());
    table.row(last);
    table
}
