//! A machine as a tree: CPUs, what hangs below them, and the links that cross the tree.

use crate::names::processors;
use planner::explain::{NodeNames, processor};
use topology::{BusId, LinkType, NodeData, NodeId, NodeType, System};

use super::branch::Branch;
use super::names::{each_host, equal_hosts};
use super::{Look, gbps, group, ranges, wrap};

/// Before the bandwidth of the link to the parent.
const LINK: &str = "  ── ";

/// The trees of all CPUs, those of equal hosts once, and the links across.
pub fn machine(system: &System, names: &NodeNames<'_>, look: Look) -> String {
    let mut drawn = vec![false; system.node_count()];
    let mut host_tree = |host: u32| {
        let mut text = String::new();
        let cpus = system.nodes(NodeType::Cpu);
        for cpu in cpus.filter(|cpu| system.node(*cpu).id.system() == host) {
            drawn[cpu.index()] = true;
            let mut branch = Branch::leaf(look.heading(&describe(system, names, cpu)));
            branch.below = below(system, names, cpu, &mut drawn);
            text.push_str(&branch.draw());
        }
        text
    };
    let mut text = match system.hosts().len() as u32 {
        0 | 1 => host_tree(0),
        hosts => {
            let trees = each_host((0..hosts).map(&mut host_tree).zip(0..), look);
            format!(
                "{trees}\n{}{}",
                look.title("Ranks", ""),
                ranks_of_hosts(system, look)
            )
        }
    };
    let is_switch = |node| system.kind(node) == NodeType::Pci;
    for (title, kind) in [
        ("NVLink", LinkType::Nvl),
        ("C2C", LinkType::C2c),
        ("Between CPUs", LinkType::Sys),
        ("Between PCI switches", LinkType::Loc),
    ] {
        let links = across(system, names, |link| {
            let (from, to) = system.ends(link);
            let wanted = kind != LinkType::Loc || is_switch(from) && is_switch(to);
            wanted && system.link(link).kind == kind
        });
        if !links.is_empty() {
            text.push_str(&format!("\n{}\n", look.heading(title)));
        }
        for line in links {
            text.push_str(&wrap(&line, "  ", "    ", look.width));
        }
    }
    text
}

/// The ranks of each host's GPUs.
fn ranks_of_hosts(system: &System, look: Look) -> String {
    let mut hosts: Vec<Vec<i32>> = vec![Vec::new(); system.hosts().len()];
    for (node, gpu) in system.gpus() {
        hosts[system.node(node).id.system() as usize].push(gpu.rank);
    }
    let texts = hosts.iter_mut().enumerate().map(|(host, own)| {
        own.sort_unstable();
        format!("host{host}: {}", ranges(own, ","))
    });
    let texts: Vec<String> = texts.collect();
    wrap(&texts.join("; "), "  ", "  ", look.width)
}

/// The nodes below a node that were not drawn yet.
fn below(system: &System, names: &NodeNames<'_>, node: NodeId, drawn: &mut [bool]) -> Vec<Branch> {
    let mut branches = Vec::new();
    for link in system.links(node) {
        let (to, data) = (system.target(link), system.link(link));
        let hangs = match system.kind(to) {
            NodeType::Pci | NodeType::Dev | NodeType::Nic => data.kind == LinkType::Pci,
            NodeType::Net | NodeType::Gin | NodeType::Rma => data.kind == LinkType::Net,
            // The ranks of a device.
            NodeType::Gpu => data.kind == LinkType::Loc && system.kind(node) == NodeType::Dev,
            _ => false,
        };
        if !hangs || std::mem::replace(&mut drawn[to.index()], true) {
            continue;
        }
        let mut branch = Branch::leaf(describe(system, names, to));
        if data.kind == LinkType::Pci && data.bw < topology::bandwidth::LOCAL {
            branch
                .text
                .push_str(&format!("{LINK}{} GB/s", gbps(data.bw)));
        }
        branch.below = below(system, names, to, drawn);
        branches.push(fold(system, to, branch));
    }
    branches
}

/// A device with one rank, and an adapter with one port, are one line.
fn fold(system: &System, node: NodeId, mut branch: Branch) -> Branch {
    let foldable = matches!(system.kind(node), NodeType::Dev | NodeType::Nic);
    if foldable && branch.below.len() == 1 && branch.below[0].below.is_empty() {
        let inner = branch.below.remove(0);
        let (own, link) = branch
            .text
            .split_at(branch.text.find(LINK).unwrap_or(branch.text.len()));
        branch.text = match own
            .rsplit(' ')
            .next()
            .filter(|word| BusId::is_well_formed(word))
        {
            Some(bus_id) => format!("{}  {bus_id}{link}", inner.text),
            None => format!("{}{link}", inner.text),
        };
    }
    branch
}

fn describe(system: &System, names: &NodeNames<'_>, node: NodeId) -> String {
    let label = names.plain(node);
    match &system.node(node).data {
        NodeData::Cpu(cpu) => {
            let processors = cpu.affinity.as_deref().and_then(processors);
            let processors =
                processors.map_or_else(String::new, |list| format!(", processors {list}"));
            format!("{label}  {}{processors}", processor(cpu))
        }
        NodeData::Gpu(gpu) => {
            let gdr = if gpu.gdr { "" } else { "  no GPUDirect RDMA" };
            // The ranks of several hosts are listed apart, so that equal hosts read alike.
            let rank = match system.hosts().len() {
                0 | 1 => format!("  rank {}", gpu.rank),
                _ => String::new(),
            };
            format!("{label}{rank}  sm {}{gdr}", gpu.sm)
        }
        NodeData::Dev(dev) => format!("{label} device  {}", dev.bus_id),
        NodeData::Net(net) => {
            let name = net.name.as_deref().unwrap_or("without a name");
            let mut text = format!("{label}  {name}  {} GB/s", gbps(net.bw));
            if !net.gdr {
                text.push_str("  no GPUDirect RDMA");
            }
            if net.coll {
                text.push_str("  reduces (CollNet)");
            }
            text
        }
        NodeData::Pci { .. } => format!("switch {}", BusId(system.node(node).id.local())),
        _ => label.to_owned(),
    }
}

/// The links of a kind, each pair once, equal bandwidths together.
fn across(
    system: &System,
    names: &NodeNames<'_>,
    wanted: impl Fn(topology::LinkId) -> bool,
) -> Vec<String> {
    let mut links = Vec::new();
    let mut add = |key: String, member: String| links.push((key, member));
    for from in (0..system.node_count()).map(|node| NodeId(node as u32)) {
        for link in system.links(from).filter(|link| wanted(*link)) {
            let (to, data) = (system.target(link), system.link(link));
            let bw = gbps(data.bw);
            let shared = [NodeType::Nvs, NodeType::Cpu, NodeType::Cxb];
            if shared.contains(&system.kind(to)) && system.kind(from) != system.kind(to) {
                let host = |node: NodeId| system.node(node).id.system();
                let label = match host(from) == host(to) {
                    true => names.plain(to),
                    false => names.label(to),
                };
                add(
                    format!("– {label}  {bw} GB/s"),
                    names.label(from).to_owned(),
                );
                continue;
            }
            let back = system
                .link_between(to, from, data.kind)
                .map(|back| system.link(back).bw);
            if shared.contains(&system.kind(from)) && system.kind(from) != system.kind(to) {
                continue;
            }
            // Equal in both directions: once is enough.
            if back != Some(data.bw) {
                add(
                    format!("  {bw} GB/s, this direction only"),
                    format!("{} → {}", names.label(from), names.label(to)),
                );
            } else if from < to {
                add(
                    format!("  {bw} GB/s"),
                    format!("{} – {}", names.label(from), names.label(to)),
                );
            }
        }
    }
    group(links)
        .into_iter()
        .map(|(key, members)| {
            let each = if members.len() > 1 { " each" } else { "" };
            format!("{} {key}{each}", list(&members))
        })
        .collect()
}

/// Labels with commas; when all are `GPU` and a number, as `GPU0-7`. Equal labels of several hosts
/// are `host0-17: GPU0-3`.
fn list(labels: &[String]) -> String {
    let hosts: Option<Vec<(u32, String)>> = labels.iter().map(|label| one_host(label)).collect();
    if let Some(hosts) = hosts {
        let visits = hosts.chunk_by(|one, next| one.0 == next.0).map(|own| {
            let plain: Vec<String> = own.iter().map(|(_, label)| label.clone()).collect();
            (own[0].0, list(&plain))
        });
        return equal_hosts(&visits.collect::<Vec<_>>()).join("; ");
    }
    let numbers: Option<Vec<i32>> = labels
        .iter()
        .map(|label| label.strip_prefix("GPU")?.parse().ok())
        .collect();
    match numbers {
        Some(numbers) if numbers.len() > 1 => format!("GPU{}", ranges(&numbers, ",")),
        _ => labels.join(", "),
    }
}

/// The host of a label such as `host3/CPU0 – host3/CPU1`, and the label without it; `None` if it
/// has no host, or several.
fn one_host(label: &str) -> Option<(u32, String)> {
    let (first, _) = label.split_once('/')?;
    let host = first.strip_prefix("host")?.parse().ok()?;
    let plain = label.replace(&format!("{first}/"), "");
    (!plain.contains('/')).then_some((host, plain))
}
