//! A machine as a tree: CPUs, what hangs below them, and the links that cross the tree.

use planner::explain::{NodeNames, processor};
use topology::{BusId, LinkType, NodeData, NodeId, NodeType, System};

use super::branch::Branch;
use super::{Look, gbps, group, ranges, words, wrap};

/// Before the bandwidth of the link to the parent.
const LINK: &str = "  ── ";

/// The trees of all CPUs, and the links across.
pub fn machine(system: &System, names: &NodeNames<'_>, look: Look) -> String {
    let mut drawn = vec![false; system.node_count()];
    let mut text = String::new();
    for cpu in system.nodes(NodeType::Cpu) {
        drawn[cpu.index()] = true;
        let mut branch = Branch::leaf(look.heading(&describe(system, names, cpu)));
        branch.below = below(system, names, cpu, &mut drawn);
        text.push_str(&branch.draw());
    }
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

/// What hangs below a node and was not drawn yet.
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
    let label = names.label(node);
    match &system.node(node).data {
        NodeData::Cpu(cpu) => {
            let processors = cpu.affinity.as_deref().and_then(words::processors);
            let processors =
                processors.map_or_else(String::new, |list| format!(", processors {list}"));
            format!("{label}  {}{processors}", processor(cpu))
        }
        NodeData::Gpu(gpu) => {
            let gdr = if gpu.gdr { "" } else { "  no GPUDirect RDMA" };
            format!("{label}  rank {}  sm {}{gdr}", gpu.rank, gpu.sm)
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
                add(
                    format!("– {}  {bw} GB/s", names.label(to)),
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

/// Labels with commas; when all are `GPU` and a number, as `GPU0-7`.
fn list(labels: &[String]) -> String {
    let numbers: Option<Vec<i32>> = labels
        .iter()
        .map(|label| label.strip_prefix("GPU")?.parse().ok())
        .collect();
    match numbers {
        Some(numbers) if numbers.len() > 1 => format!("GPU{}", ranges(&numbers, ",")),
        _ => labels.join(", "),
    }
}
