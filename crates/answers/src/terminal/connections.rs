//! The ways of bytes between neighbors, grouped by what is equal.

use plan::expand::PeerLink;
use plan::{
    Connection, Gdr, GpuGroup, GpuTransport, Graph, GraphKind, NetEnd, Pattern, Plan,
    PlannedMachine, PortUse, Transports,
};

use super::names;
use super::names::{gpu_name, gpu_names, gpu_number, net_name};
use pages::numbers::{gbps, group, ranges};
use pages::{Look, Section, Table};

/// Adds the work of each group of a machine, and the links between hosts.
pub fn add(section: &mut Section, plan: &Plan, machine: &PlannedMachine, look: Look) {
    for (index, group) in machine.groups.iter().enumerate() {
        let Some(transports) = &group.transports else {
            continue;
        };
        if machine.groups.len() > 1 {
            let gpus: Vec<String> = group
                .members()
                .iter()
                .map(|gpu| gpu_name(machine, *gpu))
                .collect();
            section.lines(look.title(&format!("Node {index}"), &gpus.join(" ")));
        }
        between(section, machine, group, transports);
        if group.inter {
            let ports = ports(plan, machine, group, transports);
            section.lines("\n").table(ports);
        }
    }
}

/// Transports between GPUs, each with its pairs.
fn between(
    section: &mut Section,
    machine: &PlannedMachine,
    group: &GpuGroup,
    transports: &Transports,
) {
    let members = group.members();
    if members.len() < 2 {
        section.faint("only one GPU");
        return;
    }
    let mut table = Table::new(["over", "path", ">GB/s", "from→to", "why"]);
    for (index, transport) in transports.distinct.iter().enumerate() {
        let rows = transports.between.iter().zip(&members);
        let rows = rows.map(|(row, from)| {
            let same = row.iter().map(|at| usize::from(*at) == index);
            let to = same.zip(&members);
            let to = to.filter(|(equal, to)| *equal && *to != from);
            (*from, to.map(|(_, to)| *to).collect())
        });
        let rows: Vec<(u32, Vec<u32>)> = rows.collect();
        // A transport that only joins a GPU with itself is no row.
        if rows.iter().all(|(_, to)| to.is_empty()) {
            continue;
        }
        let pairs = match rows.iter().all(|(_, to)| to.len() + 1 == members.len()) {
            true => "every GPU→every other".to_owned(),
            false => pairs(machine, &rows),
        };
        let mut row = words(machine, transport);
        row.insert(3, pairs);
        table.row(row);
    }
    section.table(table);
}

/// Senders with their receivers: `0→1-3 1→0,2,3`. Of an NVLink domain, those with equal receivers
/// together.
fn pairs(machine: &PlannedMachine, rows: &[(u32, Vec<u32>)]) -> String {
    let rows = rows.iter().filter(|(_, to)| !to.is_empty());
    if machine.hosts == 1 {
        let pair = |(from, to): &(u32, Vec<u32>)| {
            let to: Vec<i32> = to.iter().map(|to| gpu_number(machine, *to)).collect();
            let from = gpu_name(machine, *from);
            format!("{}→{}", from.trim_start_matches("GPU"), ranges(&to, ","))
        };
        return rows.map(pair).collect::<Vec<_>>().join(" ");
    }
    // GPUs that all reach each other have the same set of receivers and themselves.
    let sets = rows.map(|(from, to)| {
        let mut set = to.clone();
        set.push(*from);
        set.sort_unstable();
        (set, (*from, to))
    });
    let mut texts = Vec::new();
    let mut others = Vec::new();
    for (set, senders) in group(sets) {
        match senders.len() == set.len() {
            true => texts.push(format!("among {}", in_order(machine, &set))),
            false => others.extend(senders.into_iter().map(|(from, to)| (to, from))),
        }
    }
    for (to, from) in group(others) {
        let (from, to) = (in_order(machine, &from), in_order(machine, to));
        texts.push(format!("from {from} to {to}"));
    }
    texts.join(", ")
}

fn in_order(machine: &PlannedMachine, gpus: &[u32]) -> String {
    let gpus: Vec<i32> = gpus.iter().map(|gpu| *gpu as i32).collect();
    names::order(machine, &gpus)
}

/// Transport, path, bandwidth, reason.
fn words(machine: &PlannedMachine, transport: &GpuTransport) -> Vec<String> {
    match transport {
        GpuTransport::Direct {
            via,
            read,
            path,
            bw,
        } => {
            let via = via.map_or(String::new(), |via| {
                format!(" through {}", gpu_name(machine, via))
            });
            let reads = if *read { "the receiver reads" } else { "" };
            vec![
                format!("P2P{via}"),
                path.to_string(),
                gbps(*bw),
                reads.to_owned(),
            ]
        }
        GpuTransport::SharedMemory {
            not_direct,
            path,
            bw,
        } => vec![
            "SHM".to_owned(),
            path.to_string(),
            gbps(*bw),
            format!("no P2P: {not_direct}"),
        ],
        GpuTransport::Network {
            not_direct,
            not_shared,
        } => vec![
            "NET".to_owned(),
            String::new(),
            String::new(),
            format!("no P2P: {not_direct}; no SHM: {not_shared}"),
        ],
    }
}

/// The ports of each GPU, who drives them, and which channels use them.
fn ports(
    plan: &Plan,
    machine: &PlannedMachine,
    machine_group: &GpuGroup,
    transports: &Transports,
) -> Table {
    let mut table = Table::new([
        "GPU", "NIC", "path", ">GB/s", "sends", "receives", "used by",
    ]);
    let rows = transports.ports.iter().filter_map(|port| {
        let used = used_by(plan, machine_group, transports, port);
        if used.is_empty() {
            return None;
        }
        let sends = match port.proxy {
            Some(proxy) => format!("{}, driven by {}", port.send, gpu_name(machine, proxy)),
            None => port.send.to_string(),
        };
        let row = vec![
            net_name(machine, port.net),
            port.path_type.to_string(),
            gbps(port.bw),
            sends,
            port.receive.to_string(),
            used,
        ];
        Some((row, port.gpu))
    });
    for (cells, gpus) in group(rows) {
        table.row([vec![gpu_names(machine, &gpus)], cells].concat());
    }
    table
}

/// `rings in 0, out 3; trees 0,1; p2p`.
fn used_by(plan: &Plan, group: &GpuGroup, transports: &Transports, port: &PortUse) -> String {
    let mut parts = Vec::new();
    for (kind, name) in [
        (GraphKind::Ring, "rings"),
        (GraphKind::Tree, "trees"),
        (GraphKind::CollnetChain, "chains"),
        (GraphKind::CollnetDirect, "heads"),
        (GraphKind::Nvls, "nvls"),
    ] {
        let [enters, leaves] = uses(plan, group, port, kind);
        let sides = [(" in ", &enters), (" out ", &leaves)];
        let used = sides.iter().filter(|(_, channels)| !channels.is_empty());
        let texts = used.map(|(side, channels)| format!("{side}{}", ranges(channels, ",")));
        let texts: Vec<String> = match enters == leaves {
            true => vec![format!(" {}", ranges(&enters, ","))],
            false => texts.collect(),
        };
        if !(enters.is_empty() && leaves.is_empty()) {
            parts.push(format!("{name}{}", texts.join(",")));
        }
    }
    if let Some(p2p) = transports.p2p(port.gpu) {
        let rails = || p2p.rails.iter();
        let through = |ports: &[plan::RailPort]| ports.iter().any(|rail| rail.net == port.net);
        let to: Vec<i32> = rails()
            .filter(|rail| through(&rail.ports))
            .map(|rail| rail.dev)
            .collect();
        if p2p.own.contains(&port.net) {
            parts.push("p2p".to_owned());
        } else if !to.is_empty() {
            parts.push(format!("p2p to GPU {}", ranges(&to, ",")));
        }
    }
    parts.join("; ")
}

/// The channels of a graph that enter at a port, and those that leave there.
fn uses(plan: &Plan, group: &GpuGroup, port: &PortUse, kind: GraphKind) -> [Vec<i32>; 2] {
    let common = plan.common.as_ref();
    let merged = common.map_or(0, |common| common.graph_channels(kind));
    let mut found = [Vec::new(), Vec::new()];
    for graph in group.graphs.iter().filter(|graph| graph.kind == kind) {
        for (channel, number) in graph.channels.iter().take(merged as usize).zip(0..) {
            let nets = channel.nets.unwrap_or([-1; 2]);
            for (gpu, sends) in ends(graph, &channel.ranks) {
                // The first GPU uses the port for entering, the others the port for leaving.
                let net = nets[usize::from(Some(&gpu) != channel.ranks.first())];
                if (gpu as u32, net) == (port.gpu, port.net) {
                    found[usize::from(sends)].push(number);
                }
            }
        }
    }
    found
}

/// The GPUs at which a channel meets the network, and whether they send (or receive) there.
fn ends(graph: &Graph, gpus: &[i32]) -> Vec<(i32, bool)> {
    let first = gpus.first().copied();
    let others = match graph.pattern {
        Pattern::Ring => {
            let last = gpus.last().copied();
            return first
                .map(|gpu| (gpu, false))
                .into_iter()
                .chain(last.map(|gpu| (gpu, true)))
                .collect();
        }
        Pattern::BalancedTree | Pattern::SplitTree => gpus.get(1).copied(),
        _ => None,
    };
    let both = first.into_iter().chain(others);
    both.flat_map(|gpu| [(gpu, false), (gpu, true)]).collect()
}

/// How bytes travel from one rank (with its machine) to another in a few words.
pub fn sentence(
    connection: &Connection,
    from: (u32, &PlannedMachine),
    to: &PlannedMachine,
) -> String {
    match connection {
        Connection::Direct {
            via,
            read,
            path,
            bw,
        } => {
            let via = via.map_or(String::new(), |via| format!(" through rank {via}"));
            let read = if *read { ", read by the receiver" } else { "" };
            format!("P2P{via}, {path} {} GB/s{read}", gbps(*bw))
        }
        Connection::SharedMemory { not_direct, path } => {
            let path = path.map_or(String::new(), |(path, bw)| {
                format!(", {path} {} GB/s", gbps(bw))
            });
            format!("SHM{path} (no P2P: {not_direct})")
        }
        Connection::Network {
            not_direct,
            not_shared,
            sender,
            receiver,
        } => {
            let proxy = if sender.proxy == from.0 {
                String::new()
            } else {
                format!(" by rank {} (PXN)", sender.proxy)
            };
            let local = if *not_direct == plan::NotDirect::OtherHost {
                String::new()
            } else {
                format!(" (no P2P: {not_direct}; no SHM: {not_shared})")
            };
            format!(
                "NET, {}{proxy}→{}{local}",
                end(from.1, sender),
                end(to, receiver)
            )
        }
    }
}

/// `NIC3 GDR`.
fn end(machine: &PlannedMachine, end: &NetEnd) -> String {
    let gdr = match end.gdr {
        Gdr::Direct | Gdr::Pci => end.gdr.to_string(),
        Gdr::Host(why) => format!("({why}: no GDR)"),
    };
    format!("{} {gdr}", net_name(machine, end.net))
}

/// Both directions of a link; once where they are alike.
pub fn both_directions(
    link: &PeerLink,
    rank: u32,
    own: &PlannedMachine,
    peer: &PlannedMachine,
) -> String {
    let send = link
        .send
        .map(|connection| sentence(&connection, (rank, own), peer));
    let receive = link
        .receive
        .map(|connection| sentence(&connection, (link.peer, peer), own));
    match (send, receive) {
        (Some(send), Some(receive)) if send == receive => send,
        (Some(send), Some(receive)) => format!("out: {send}; in: {receive}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => String::new(),
    }
}
